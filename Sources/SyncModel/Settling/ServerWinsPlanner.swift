public import FoundationEssentials

/// Decides how `server_wins` settles a conflict (product rule 12). This type does no I/O.
///
/// The mutation is discarded, the server's entity is adopted, and the mutation's dependants no longer wait for it.
public struct ServerWinsPlanner {
    private let subject: SettleSubject
    private let current: ConflictState?
    /// The entity's permanent id; nil if the id is unknown.
    public let serverID: ServerID?

    /// - Throws: `status_transition_must_be_valid` for a mutation that is not in conflict, and for a conflict without
    ///   an entity to adopt.
    public init(_ subject: SettleSubject) throws(Problem) {
        try subject.require([.conflict], to: "resolve")
        self.subject = subject
        current = ConflictState(error: subject.record.error)
        let record = subject.record
        serverID = ConflictState.entity(of: record, current)
        guard record.operation == .create else { return }
        if serverID == nil {
            throw Problem(
                .statusTransitionMustBeValid,
                "the upstream's response does not identify the existing entity; retry or discard the mutation"
            )
        }
        if !subject.type.isForwarded, current == nil {
            throw Problem(
                .statusTransitionMustBeValid,
                "the id belongs to an entity that cannot be adopted; discard the mutation"
            )
        }
    }

    /// The entity's next state; nil if there is nothing to write.
    ///
    /// A state is adopted only if the entity is forwarded and the upstream's answer contained the state. Entities of
    /// the built-in store are not changed, and a state from the feed is not written again.
    ///
    /// - Parameters:
    ///   - stored: the current entity.
    ///   - isNewer: whether the entity was written after the conflict. If so, the later write is kept.
    public func adoption(of stored: EntityState?, isNewer: Bool, user: UUID) -> EntityState? {
        guard subject.type.isForwarded, let serverID, let current, current.version == nil,
            current.document != nil || current.isDeleted,
            UpstreamStateAdoption(
                user: user,
                visibility: subject.type.visibility,
                isCreate: subject.record.operation == .create,
                access: subject.access
            )
            .isPossible(over: stored, isNewer: isNewer)
        else { return nil }
        let document = current.isDeleted ? nil : current.document
        var next: EntityState
        if let stored {
            if stored.isDeleted == current.isDeleted, stored.document == document { return nil }
            next = stored.written(document, isDeleted: current.isDeleted, by: .adopting(user))
        } else {
            guard let document else { return nil }
            next = EntityState(
                isIntegerID: serverID.isInteger,
                version: 1,
                isDeleted: false,
                document: document,
                owner: user,
                clientID: subject.record.createdClientID,
                lastWriter: .adopting(user),
                runBase: 0
            )
        }
        next.etag = current.isDeleted ? nil : current.etag
        return next
    }

    /// The entity's version and state for the answer about the mutation.
    ///
    /// - Parameters:
    ///   - state: the entity after the change.
    ///   - isOutline: whether to omit the document.
    private func reported(
        of state: EntityState?,
        _ user: UUID,
        isOutline: Bool
    ) -> (version: Int64?, current: [UInt8]?) {
        let type = subject.record.entity.type
        guard let serverID, let state else { return (nil, nil) }
        if state.isVisible(to: user, subject.type.visibility, subject.access) {
            return (state.version, state.json(type: type, id: serverID, isOutline: isOutline))
        }
        // the answer does not depend on another user's entity with this id, because the user must not learn that this
        // entity exists
        guard subject.record.operation == .create, let document = current?.document else { return (nil, nil) }
        let asIfNew = CurrentEntity(type: type, id: serverID, version: 1, etag: current?.etag, document: document)
        return (1, asIfNew.json)
    }

    /// Adds the changes to a plan.
    ///
    /// - Parameters:
    ///   - state: the entity after the change; nil if the entity is unknown.
    ///   - waiters: the mutations that are blocked by this mutation.
    ///   - unmet: the waiters' dependencies that are not satisfied yet.
    ///   - isOneOfMany: whether other mutations are settled together with this mutation. If so, large documents are not
    ///     stored with the mutations.
    public func plan(
        _ state: EntityState?,
        user: UUID,
        waiters: [DependencyNode],
        unmet: Set<UUID>,
        isOneOfMany: Bool = false,
        into plan: inout SettlePlan
    ) {
        let record = subject.record
        let isVisible = state?.isVisible(to: user, subject.type.visibility, subject.access) ?? false
        let isOutline = isOneOfMany && isVisible && state?.isLarge ?? false
        let (version, current) = reported(of: state, user, isOutline: isOutline)
        var discard = MutationDiscard(
            node: DependencyNode(record),
            resolution: .serverWins,
            serverID: serverID,
            version: version
        )
        if let error = record.error, let current {
            discard.error = Problem.json(error, current: current, isOutline: isOutline)
        }
        plan.add(discard)
        for waiter in waiters {
            let remaining = waiter.dependsOn.filter { $0 != record.id && unmet.contains($0) }
            plan.add(MutationRelease(node: waiter, dependsOn: remaining))
        }
    }
}
