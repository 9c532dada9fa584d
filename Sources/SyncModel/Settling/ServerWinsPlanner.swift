public import Foundation

/// Decides how a conflict ends when the server has its way (product rule 12): the mutation is discarded, the server's
/// entity adopted, and what depends on the mutation is satisfied. Pure.
public struct ServerWinsPlanner {
    private let subject: SettleSubject
    private let current: ConflictState?
    /// The entity's permanent id, as far as it is known.
    public let serverID: ServerID?

    /// - Parameter idPointer: where an upstream's answer names the entity (RFC 6901).
    /// - Throws: `status_transition_must_be_valid`, also where there is no entity to adopt.
    public init(_ subject: SettleSubject, idPointer: String) throws(Problem) {
        try subject.require([.conflict], to: "resolve")
        self.subject = subject
        current = ConflictState(error: subject.record.error)
        let record = subject.record
        serverID = ConflictState.entity(of: record, current, idPointer)
        guard record.operation == .create else { return }
        if serverID == nil {
            throw Problem(
                .statusTransitionMustBeValid,
                "the upstream's answer named no entity that could be adopted; retry or discard the mutation"
            )
        }
        if !subject.type.isForwarded, current == nil {
            throw Problem(
                .statusTransitionMustBeValid,
                "the id belongs to an entity that cannot be adopted; discard the mutation"
            )
        }
    }

    /// The entity that stands in the mutation's place; nil where that is not known.
    public var entity: EntityKey? {
        serverID.map { EntityKey(type: subject.record.entity.type, id: $0.text) }
    }

    /// The entity's next state; nil where there is nothing to write. Built-in entities stand as they are, and so does what
    /// the feed knew all along: of the others only what the upstream told is adopted.
    ///
    /// - Parameters:
    ///   - stored: the entity as it stands.
    ///   - isNewer: whether it was written after the conflict: whoever did knows better.
    public func adoption(of stored: EntityState?, isNewer: Bool, user: UUID) -> EntityState? {
        guard subject.type.isForwarded, let serverID, let current, current.version == nil,
            current.document != nil || current.isDeleted,
            Adoption(user: user, visibility: subject.type.visibility, isCreate: subject.record.operation == .create)
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
                runBase: 0,
                isStored: false
            )
        }
        next.etag = current.isDeleted ? nil : current.etag
        return next
    }

    /// What the mutation is told of the entity: its version, and what stands there now.
    ///
    /// - Parameter state: the entity as it stands afterwards.
    private func told(of state: EntityState?, _ user: UUID) -> (version: Int64?, current: [UInt8]?) {
        let type = subject.record.entity.type
        guard let serverID, let state else { return (nil, nil) }
        if state.isVisible(to: user, subject.type.visibility) {
            return (state.version, state.json(type: type, id: serverID))
        }
        // as if nobody had an entity of that id
        guard subject.record.operation == .create, let document = current?.document else { return (nil, nil) }
        let asIfNew = CurrentEntity(type: type, id: serverID, version: 1, etag: current?.etag, document: document)
        return (1, asIfNew.json)
    }

    /// Adds what is to be written.
    ///
    /// - Parameters:
    ///   - state: the entity as it stands, or is to stand; nil where it is not known.
    ///   - waiters: mutations that are blocked on this one.
    ///   - unmet: which of all that these depend on does not satisfy its dependants yet.
    public func plan(
        _ state: EntityState?,
        user: UUID,
        waiters: [DependencyNode],
        unmet: Set<UUID>,
        into plan: inout SettlePlan
    ) {
        let record = subject.record
        let (version, current) = told(of: state, user)
        var discard = MutationDiscard(
            node: DependencyNode(record),
            resolution: .serverWins,
            serverID: serverID,
            version: version
        )
        if let error = record.error, let current { discard.error = Problem.json(error, current: current) }
        plan.add(discard)
        for waiter in waiters {
            let remaining = waiter.dependsOn.filter { $0 != record.id && unmet.contains($0) }
            plan.add(MutationRelease(node: waiter, dependsOn: remaining))
        }
    }
}
