package import FoundationEssentials
import Postgres
package import SyncModel

/// The erased users of an organization whom gateways must refuse immediately.
///
/// The erasure of these users is in progress or began recently. For all other users, the gateway reads the database at
/// intervals (``Catalog/owner(of:in:)``).
package struct ErasedUsers: Sendable {
    /// The time for which an erasure is recent after it began, in seconds.
    ///
    /// The value is twice the time for which the cache remembers that a user is not erased.
    static let memory: Double = 600

    private var hashes: Set<UserHash> = []

    package init() {}

    /// Whether the organization has ever erased a user.
    var isAny: Bool { !hashes.isEmpty }

    package func contains(_ user: LaneKey) -> Bool { !hashes.isEmpty && hashes.contains(UserHash(of: user)) }

    // MARK: - Reading

    /// Reads organizations' erasures that began after `since` or are in progress.
    ///
    /// If an organization has ever erased a user, the result has at least one row for it.
    static let statement = Statement(
        "catalog_erasures",
        ["organizations", "since"],
        """
        SELECT k.organization_id, e.user_hash
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (
            (SELECT x.user_hash FROM user_erasures x
             WHERE x.organization_id = k.organization_id AND x.started_at > :since OFFSET 0)
            UNION
            (SELECT x.user_hash FROM user_erasures x
             WHERE x.organization_id = k.organization_id AND x.finished_at IS NULL OFFSET 0)
            UNION
            (SELECT x.user_hash FROM user_erasures x WHERE x.organization_id = k.organization_id LIMIT 1)
        ) e
        """
    )

    /// Reads whether the user with the hash `user_hash` is erased.
    static let lookUp = Statement(
        "catalog_user_erased",
        ["organization", "user_hash"],
        "SELECT 1 FROM user_erasures WHERE organization_id = :organization AND user_hash = :user_hash"
    )

    static func lookUp(_ user: LaneKey) -> Query {
        lookUp(organization: user.organization, user_hash: UserHash(of: user))
    }

    /// SQL for whether a user is erased.
    package static func isErased(_ organization: String, _ user: String) -> String {
        """
        (SELECT e.user_hash FROM user_erasures e
             WHERE e.organization_id = \(organization)
                AND e.user_hash = sha256(uuid_send(\(organization)) || uuid_send(\(user)))) IS NOT NULL
        """
    }

    /// SQL for the salted hash of a user's subject at an issuer.
    package static func subjectHash(salt: String, issuer: String, subject: String) -> String {
        """
        sha256(\(salt) || convert_to(\(issuer)::text, 'UTF8') || '\\x00'::bytea || convert_to(\(subject)::text, 'UTF8'))
        """
    }

    /// Reads the hashes from an organization's rows. The caller has already read the column `organization_id`.
    init(_ rows: [RowReader]) throws {
        for var row in rows { hashes.insert(UserHash(bytes: try row.read("user_hash"))) }
    }
}

extension Problem {
    /// The problem in responses to devices of an erased user.
    package static var userErased: Problem {
        Problem(
            .userErased,
            "This user's data has been permanently erased. Delete the local data and sign out."
        )
    }
}

/// The joined users of an organization at a moment. Usually the list is empty.
///
/// This state is cached, and may be outdated. Therefore the database itself ensures that no effect happens twice. After
/// a user's rows were moved, the user has no lane, and no new lane is created for this user
/// (``GroupStatements/makeLanes``). A lane is not moved while a worker holds it.
package struct UserJoins: Sendable {
    /// The owner of a user's requests.
    package enum State: Sendable, Hashable {
        case itself
        /// The user was joined into the user with this id.
        case part(of: UUID)
        /// The user is being joined with another user, and the future owner is not known yet.
        case closed
    }

    /// The users into whom others were joined, by joined user.
    private(set) var targets: [UUID: UUID] = [:]
    /// The users who are being joined, with the times until which their requests are refused.
    private var closed: [UUID: Timestamp] = [:]

    package init() {}

    mutating func add(_ user: UUID, into target: UUID, closedUntil: Timestamp?) {
        guard let closedUntil else {
            targets[user] = target
            return
        }
        for party in [user, target] { closed[party] = closed[party].map { max($0, closedUntil) } ?? closedUntil }
    }

    package func state(of user: UUID, at now: Timestamp) -> State {
        if targets.isEmpty, closed.isEmpty { return .itself }
        let owner = targets[user] ?? user
        if isClosed(owner, at: now) || isClosed(user, at: now) { return .closed }
        return owner == user ? .itself : .part(of: owner)
    }

    /// Whether the user is being joined with another user.
    package func isClosed(_ user: UUID, at now: Timestamp) -> Bool { closed[user].map { now < $0 } ?? false }

    /// Whether any join was in progress at the time of the read, and may have ended since then.
    func isOutdated(at now: Timestamp) -> Bool {
        !closed.isEmpty && closed.values.contains { $0 <= now }
    }

    // MARK: - Reading

    /// Reads the joins of organizations.
    static let statement = Statement(
        "catalog_joins",
        ["organizations"],
        """
        SELECT j.organization_id, j.user_id, j.into_id, j.closed_until
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (SELECT * FROM user_joins x WHERE x.organization_id = k.organization_id OFFSET 0) j
        """
    )

    /// Reads the joins from an organization's rows. The caller has already read the column `organization_id`.
    init(_ rows: [RowReader]) throws {
        for var row in rows {
            let user: UUID = try row.read("user_id")
            let target: UUID = try row.read("into_id")
            add(user, into: target, closedUntil: try row.read("closed_until"))
        }
    }
}

extension Problem {
    /// The problem for both users of a join. Their requests are refused for the seconds that the join takes.
    package static var userIsJoining: Problem {
        var problem = Problem.overloaded("the user is being merged with another user")
        problem.retryAfter = 2
        return problem
    }
}
