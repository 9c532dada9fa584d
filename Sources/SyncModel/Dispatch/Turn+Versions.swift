/// What becomes of a forwarded mutation that was made on a version which the entity has left (product rule 12): the
/// conflict is known here, so nothing is sent and no attempt is spent.
extension Turn {
    /// An If-Match that no state of an entity has.
    ///
    /// A mutation that was sent before, with an outcome that nobody knows, goes out again under its key even if another
    /// has written since: only the upstream can tell what came of it. It answers for the key that it knows, and refuses
    /// what it has not seen.
    static let passedValidator = #""base-version-was-passed""#

    /// The conflict of a mutation with what the feed knows of its entity; nil where it is to be sent.
    func versionConflict() -> TurnPlanner.Decision? {
        // what is to have its way over a conflict has met it before
        guard mutation.operation != .create, mutation.override == nil, mutation.resolution != .clientWins,
            let baseVersion = mutation.baseVersion, let entity = surroundings.visibleEntity, let own
        else { return nil }
        let writer = Writer(user: surroundings.lane.user, device: mutation.deviceID)
        let verdict = entity.run.verdict(on: baseVersion, from: writer)
        // what is gone can be deleted once more
        if verdict == .fits || (entity.isDeleted && mutation.operation == .delete) { return nil }
        if mutation.isOutcomeUnknown, verdict == .passed, entity.etag != nil { return nil }
        var outcome = unsent(.conflict, .conflict, serverID: own)
        var problem = Problem(
            .conflict,
            entity.isDeleted ? "another writer deleted the entity" : entity.run.words(on: baseVersion)
        )
        problem.current = entity.json(type: mutation.entity.type, id: own)
        outcome.error = problem.json
        outcome.lastError = problem.detail
        switch mutation.conflictResolution {
        case .manual: return .conflict(outcome, version: nil)
        case .serverWins:
            outcome.status = .discarded
            outcome.kind = .discarded
            outcome.resolution = .serverWins
            return .conflict(outcome, version: entity.version)
        case .clientWins: return .conflict(overriding(outcome, own), version: nil)
        }
    }

    /// Lets the client have its way. The feed's document is what was last heard of the entity, and may be behind the
    /// upstream's: a patch goes out as it is.
    private func overriding(_ conflict: Outcome, _ own: ServerID) -> Outcome {
        let sent = ClientWins.plan(
            operation: mutation.operation,
            idSpace: surroundings.type.idSpace,
            endpoint: mutation.endpoint?.text ?? "",
            payload: nil,
            current: nil,
            serverID: own
        )
        return sent.map { conflict.overridden(by: $0, of: own) } ?? conflict
    }
}
