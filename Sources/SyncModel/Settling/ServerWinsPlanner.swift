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

    /// The entity whose state is adopted; nil where there is nothing to write: built-in entities stand as they are, and
    /// of the others only what the upstream told is known.
    public var adopted: EntityKey? {
        guard subject.type.isForwarded, let serverID, let current, current.document != nil || current.isDeleted else {
            return nil
        }
        return EntityKey(type: subject.record.entityType, id: serverID.text)
    }

    /// The adopted entity's next state; nil when it stands so already, or is nobody's business but its owner's.
    public func adoption(of stored: EntityState?, user: UUID) -> EntityState? {
        guard let serverID, let current else { return nil }
        let writer = Writer(user: user, device: subject.record.deviceID)
        let document = current.isDeleted ? nil : current.document
        guard let stored else {
            guard let document else { return nil }
            return EntityState(
                isIntegerID: serverID.isInteger,
                version: 1,
                isDeleted: false,
                document: document,
                owner: user,
                clientID: createdClientID,
                lastWriter: writer,
                runBase: 0,
                isStored: false
            )
        }
        if subject.type.visibility == .user, stored.owner != user { return nil }
        if stored.isDeleted == current.isDeleted, stored.document == document { return nil }
        return stored.written(document, isDeleted: current.isDeleted, by: writer)
    }

    private var createdClientID: UUID? {
        subject.record.operation == .create && subject.type.idSpace == .mapped ? subject.record.localID : nil
    }

    /// Adds what is to be written.
    ///
    /// - Parameters:
    ///   - version: the adopted entity's here; nil where it is not known.
    ///   - waiters: mutations that are blocked on this one.
    ///   - unmet: which of all that these depend on does not satisfy its dependants yet.
    public func plan(
        version: Int64?,
        waiters: [DependencyNode],
        unmet: Set<UUID>,
        into plan: inout SettlePlan
    ) {
        let record = subject.record
        plan.add(
            MutationDiscard(
                node: DependencyNode(record),
                resolution: .serverWins,
                serverID: serverID,
                version: version ?? (subject.type.isForwarded ? nil : current?.version)
            )
        )
        for waiter in waiters {
            let remaining = waiter.dependsOn.filter { $0 != record.id && unmet.contains($0) }
            plan.add(MutationRelease(node: waiter, dependsOn: remaining))
        }
    }
}
