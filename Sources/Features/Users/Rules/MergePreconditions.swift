package import FoundationEssentials
import JSONText
package import SyncModel

/// The facts that determine whether an operator can join a user into another user. The decision needs no I/O.
package struct MergePreconditions: Sendable {
    /// A stored join.
    package struct Join: Sendable, Hashable {
        package let user: UUID
        package let target: UUID
        /// Nil once the rows have moved.
        package let closedUntil: Timestamp?

        package init(user: UUID, target: UUID, closedUntil: Timestamp?) {
            self.user = user
            self.target = target
            self.closedUntil = closedUntil
        }

        /// Whether the join still applies. If a join is not continued in time, it is given up.
        func counts(at now: Timestamp) -> Bool { closedUntil.map { now < $0 } ?? true }
    }

    /// The maximum number of joined users of an organization. Every gateway keeps all joined users in memory.
    package static let limit: Int64 = 10_000
    /// The maximum number of rows that the joining transaction moves.
    package static let rowLimit: Int64 = 50_000

    package let user: UUID
    package let target: UUID
    package var isOrganizationActive: Bool
    package var isTargetKnown: Bool
    /// The joins that name either of the two users.
    package var joins: [Join]
    /// The number of joined users of the organization.
    package var count: Int64
    /// Whether a gateway that does not support joins is running.
    package var hasOldGateway: Bool
    /// Whether the organization requires provisioning, and an operator has provisioned only one of the two users.
    package var isOneShutOut: Bool

    package init(
        user: UUID,
        target: UUID,
        isOrganizationActive: Bool,
        isTargetKnown: Bool,
        joins: [Join],
        count: Int64,
        hasOldGateway: Bool,
        isOneShutOut: Bool = false
    ) {
        self.user = user
        self.target = target
        self.isOrganizationActive = isOrganizationActive
        self.isTargetKnown = isTargetKnown
        self.joins = joins
        self.count = count
        self.hasOldGateway = hasOldGateway
        self.isOneShutOut = isOneShutOut
    }

    package enum Decision: Sendable, Hashable {
        /// Neither user is served from now on. If an earlier call of the join has closed the users, the closure is
        /// extended.
        case close
        /// The rows have moved already.
        case hasMoved
    }

    /// - Throws: `validation_failed`, with the rule that the join violates.
    package func decide(at now: Timestamp) throws(Problem) -> Decision {
        if user == target { throw Self.refusal("join_same_user", "a user cannot be merged into itself") }
        let joins = joins.filter { $0.counts(at: now) }
        let own = joins.first { $0.user == user }
        if let own {
            guard own.target == target else {
                let word = own.closedUntil == nil ? "is merged into" : "is being merged into"
                throw Self.refusal("join_already", "the user \(word) \(own.target.lowercased)")
            }
            if own.closedUntil == nil { return .hasMoved }
        }
        if let other = joins.first(where: { $0.user == target }) {
            let detail = "the target itself is merged into \(other.target.lowercased): use that user"
            throw Self.refusal("join_chain", detail)
        }
        if let other = joins.first(where: { $0.target == user && $0.closedUntil != nil }) {
            let detail = "\(other.user.lowercased) is being merged into the user: wait until that merge ends"
            throw Self.refusal("join_chain", detail)
        }
        guard isTargetKnown else {
            throw Self.unknownTarget
        }
        guard isOrganizationActive else {
            throw Self.refusal("join_organization_suspended", "the organization is suspended: activate it first")
        }
        if isOneShutOut { throw Self.oneIsShutOut }
        guard own != nil || count < Self.limit else {
            throw Self.refusal(
                "join_too_many",
                "the organization already has \(Self.limit) merged users"
            )
        }
        guard !hasOldGateway else {
            throw Problem.oldGateway(without: "merges", pointer: "/into", rule: "join_old_gateway")
        }
        return .close
    }

    package static var unknownTarget: Problem {
        refusal("join_unknown_user", "the organization has no such target user")
    }

    /// The problem if only one of the two users is admitted to an organization with explicit provisioning.
    ///
    /// After a join, tokens of the user who is not admitted would be accepted as tokens of the other user. A join must
    /// not give access in this way. Therefore an operator must admit that user before the join.
    package static var oneIsShutOut: Problem {
        refusal(
            "join_shut_out",
            "the organization's provisioning is explicit, and only one of the two users is admitted: before the join, "
                + "admit both users or shut out both users"
        )
    }

    package static func refusal(_ rule: String, _ detail: String) -> Problem {
        Problem(.validationFailed, pointer: "/into", rule: rule, detail)
    }
}
