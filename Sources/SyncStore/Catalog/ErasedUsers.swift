import Foundation
import Postgres
package import SyncModel

/// The erased users of an organization that a gateway needs immediately.
///
/// Those whose erasure is in progress or began recently. For all others it asks the database at intervals
/// (``Catalog/owner(of:in:)``).
package struct ErasedUsers: Sendable {
    /// How long an erasure counts as recent, in seconds.
    ///
    /// Twice as long as the cache remembers that a user is not erased.
    static let memory: Double = 600

    private var hashes: Set<UserHash> = []

    package init() {}

    /// Whether the organization has erased users at all, recent or not.
    var isAny: Bool { !hashes.isEmpty }

    package func contains(_ user: LaneKey) -> Bool { !hashes.isEmpty && hashes.contains(UserHash(of: user)) }

    // MARK: - Reading

    /// Of organizations, with the moment from which on erasures are recent. Where there are any at all, there is a row.
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

    /// Whether one user (`user_hash`: the hash) is erased.
    static let lookUp = Statement(
        "catalog_user_erased",
        ["organization", "user_hash"],
        "SELECT 1 FROM user_erasures WHERE organization_id = :organization AND user_hash = :user_hash"
    )

    static func lookUp(_ user: LaneKey) -> Query {
        lookUp(organization: user.organization, user_hash: UserHash(of: user))
    }

    /// SQL: whether a user is erased.
    package static func isErased(_ organization: String, _ user: String) -> String {
        """
        (SELECT e.user_hash FROM user_erasures e
             WHERE e.organization_id = \(organization)
                AND e.user_hash = sha256(uuid_send(\(organization)) || uuid_send(\(user)))) IS NOT NULL
        """
    }

    /// SQL: the hash of an issuer's name of a user, with a salt.
    package static func subjectHash(salt: String, issuer: String, subject: String) -> String {
        """
        sha256(\(salt) || convert_to(\(issuer)::text, 'UTF8') || '\\x00'::bytea || convert_to(\(subject)::text, 'UTF8'))
        """
    }

    /// Reads the columns behind the organization's.
    init(_ rows: [RowReader]) throws {
        for var row in rows { hashes.insert(UserHash(bytes: try row.bytes("user_hash"))) }
    }
}

extension Problem {
    /// The problem that devices of an erased user receive.
    package static var userErased: Problem {
        Problem(
            .userErased,
            "This user's data has been permanently erased. Delete the local data and sign out."
        )
    }
}
