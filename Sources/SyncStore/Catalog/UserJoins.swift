package import Foundation
import Postgres
package import SyncModel

/// The joined users of an organization at a moment, usually none.
///
/// Nothing that must not happen twice depends on it. A user whose rows have moved has no lane, and gets no new one
/// (``GroupStatements/makeLanes``); a lane that a worker holds is not moved.
package struct UserJoins: Sendable {
    /// The owner of a user's requests.
    package enum Standing: Sendable, Hashable {
        case itself
        /// The user was joined into this one.
        case part(of: UUID)
        /// The user is being joined with another: the future owner is not known yet.
        case closed
    }

    /// By user.
    private var targets: [UUID: UUID] = [:]
    /// Users that are being joined, and those they are joined into.
    ///
    /// The value is the moment at which that ends.
    private var closed: [UUID: Timestamp] = [:]

    package init() {}

    mutating func add(_ user: UUID, into target: UUID, closedUntil: Timestamp?) {
        guard let closedUntil else {
            targets[user] = target
            return
        }
        for party in [user, target] { closed[party] = closed[party].map { max($0, closedUntil) } ?? closedUntil }
    }

    package func standing(of user: UUID, at now: Timestamp) -> Standing {
        if targets.isEmpty, closed.isEmpty { return .itself }
        let owner = targets[user] ?? user
        if isClosed(owner, at: now) || isClosed(user, at: now) { return .closed }
        return owner == user ? .itself : .part(of: owner)
    }

    /// Whether the user is being joined with another.
    package func isClosed(_ user: UUID, at now: Timestamp) -> Bool { closed[user].map { now < $0 } ?? false }

    /// Whether a join that was under way at `readAt` may have ended since.
    ///
    /// It may be done or given up.
    func isOutdated(at now: Timestamp) -> Bool {
        !closed.isEmpty && closed.values.contains { $0 <= now }
    }

    // MARK: - Reading

    /// The joins of organizations.
    static let statement = Statement(
        "catalog_joins",
        ["organizations"],
        """
        SELECT j.organization_id, j.user_id, j.into_id, j.closed_until
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (SELECT * FROM user_joins x WHERE x.organization_id = k.organization_id OFFSET 0) j
        """
    )

    /// Reads the columns behind the organization's.
    init(_ rows: [RowReader]) throws {
        for var row in rows {
            let user = try row.uuid("user_id")
            let target = try row.uuid("into_id")
            add(user, into: target, closedUntil: try row.optionalMoment("closed_until"))
        }
    }
}

extension Problem {
    /// Neither user of a join is served while it is made: for seconds.
    package static var userIsJoining: Problem {
        var problem = Problem.overloaded("the user is being merged with another user")
        problem.retryAfter = 2
        return problem
    }
}
