/// The conflict of a forwarded mutation whose base version is outdated.
///
/// Product rule 12. The gateway detects the conflict itself, so it sends nothing and no attempt is spent.
extension DispatchDecision {
    /// An If-Match that matches no state of an entity.
    ///
    /// A mutation that was sent before, with an unknown outcome, is sent again under its idempotency key even if
    /// another mutation has written since, because only the upstream has the outcome. The upstream repeats its response
    /// to a known key. For a request that it has not seen, this If-Match makes it refuse.
    static let passedValidator = #""base-version-was-passed""#

    /// The mutation's conflict with the entity in the feed.
    ///
    /// Nil where the mutation is to be sent.
    func versionConflict() -> DispatchPlanner.Decision? {
        // a mutation that overrides a conflict has met it before
        guard mutation.operation != .create, mutation.override == nil, mutation.resolution != .clientWins,
            let baseVersion = mutation.baseVersion, let entity = surroundings.visibleEntity, let own
        else { return nil }
        let writer = Writer(user: surroundings.lane.user, device: mutation.deviceID)
        let verdict = entity.run.verdict(on: baseVersion, from: writer)
        // a deleted entity can be deleted again
        if verdict == .fits || (entity.isDeleted && mutation.operation == .delete) { return nil }
        if mutation.isOutcomeUnknown, verdict == .passed, entity.etag != nil { return nil }
        var outcome = unsent(.conflict, .conflict, serverID: own)
        var problem = Problem(
            .conflict,
            entity.isDeleted ? "another writer deleted the entity" : entity.run.conflictDescription(on: baseVersion)
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

    /// Lets the client win.
    ///
    /// The feed's document is the last known state of the entity, and may be behind the upstream's, so a patch is sent
    /// as it is.
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
