/// What becomes of a forwarded mutation that was made on a version which the entity has left (product rule 12): the
/// conflict is known here, so nothing is sent and no attempt is spent.
extension TurnPlanner {
    /// An If-Match that no state of an entity has.
    ///
    /// A mutation that was sent before, with an outcome that nobody knows, goes out again under its key even if another
    /// has written since: only the upstream can tell what came of it. It answers for the key that it knows, and refuses
    /// what it has not seen.
    static let passedValidator = #""base-version-was-passed""#

    /// The conflict of a mutation with what the feed knows of its entity; nil where it is to be sent.
    func versionConflict(
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        _ own: ServerID?
    ) -> Decision? {
        // what is to have its way over a conflict has met it before
        guard mutation.operation != .create, mutation.override == nil, mutation.resolution != .clientWins,
            let baseVersion = mutation.baseVersion, let entity = surroundings.visibleEntity, let own
        else { return nil }
        let writer = Writer(user: surroundings.lane.user, device: mutation.deviceID)
        let verdict = entity.run.verdict(on: baseVersion, from: writer)
        // what is gone can be deleted once more
        if verdict == .fits || (entity.isDeleted && mutation.operation == .delete) { return nil }
        if mutation.isOutcomeUnknown, verdict == .passed, entity.etag != nil { return nil }
        var outcome = Outcome(.conflict, .conflict, of: dispatch(mutation, surroundings, own, .builtIn(payload: [])))
        outcome.attemptCount = mutation.attemptCount
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        var problem = Problem(
            .conflict,
            entity.isDeleted ? "another writer deleted the entity" : entity.run.words(on: baseVersion)
        )
        problem.current =
            CurrentEntity(
                type: mutation.entityType,
                id: own,
                version: entity.version,
                etag: entity.etag,
                isDeleted: entity.isDeleted,
                document: entity.document,
                isUnreadable: entity.isUnreadable
            ).json
        outcome.error = problem.json
        outcome.lastError = problem.detail
        switch mutation.strategy {
        case .manual: return .conflict(outcome, version: nil)
        case .serverWins:
            outcome.status = .discarded
            outcome.kind = .discarded
            outcome.resolution = .serverWins
            return .conflict(outcome, version: entity.version)
        case .clientWins: return .conflict(overriding(outcome, mutation, surroundings.type, own), version: nil)
        }
    }

    /// Lets the client have its way. The feed's document is what was last heard of the entity, and may be behind the
    /// upstream's: a patch goes out as it is.
    private func overriding(
        _ conflict: Outcome,
        _ mutation: QueuedMutation,
        _ type: EntityType,
        _ own: ServerID
    ) -> Outcome {
        let sent = ClientWins.plan(
            operation: mutation.operation,
            idSpace: type.idSpace,
            endpoint: mutation.endpoint ?? "",
            payload: nil,
            current: nil,
            serverID: own
        )
        return sent.map { conflict.overridden(by: $0, of: own) } ?? conflict
    }
}
