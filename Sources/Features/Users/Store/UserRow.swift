package import Foundation
import Postgres
package import SyncModel
package import SyncStore

/// A user as operators see them.
package struct UserRow: Sendable {
    /// What an issuer calls the user.
    package struct Name: Sendable {
        package let subject: Subject
        /// When the name was first seen, or provisioned.
        package let createdAt: Timestamp
    }

    /// The columns, for a user of an organization that is called `k.user_id`.
    static let list = """
        k.user_id, u.created_at,
            (SELECT max(d.last_seen_at) FROM devices d WHERE d.organization_id = :organization AND d.user_id = k.user_id)
                AS last_seen_at,
            (SELECT j.into_id FROM user_joins j
                WHERE j.organization_id = :organization AND j.user_id = k.user_id AND j.closed_until IS NULL) AS into_id,
            \(names("x.issuer::text")) AS issuers, \(names("x.subject::text")) AS subjects,
            \(names("(extract(epoch FROM x.created_at) * 1000000)::int8")) AS subjects_created_at
        """

    private static func names(_ column: String) -> String {
        """
        ARRAY(
                    SELECT \(column) FROM user_subjects x
                    WHERE x.organization_id = :organization AND x.user_id = k.user_id ORDER BY x.issuer, x.subject
                )
        """
    }

    package let id: UUID
    /// When the user first pushed, registered a device or was provisioned; nil for a user who has only read, or was
    /// blocked.
    package let registeredAt: Timestamp?
    /// When one of the user's devices last pushed or pulled; nil if no device has.
    package let lastSeenAt: Timestamp?
    /// The user that this one was joined into.
    package let into: UUID?
    /// By issuer and subject.
    package let names: [Name]

    /// When the user was first recorded here; nil for a user of whom only a join is left.
    package var firstSeenAt: Timestamp? { ([registeredAt] + names.map(\.createdAt)).compactMap(\.self).min() }

    /// Reads the columns of ``list``.
    init(_ row: inout RowReader) throws {
        id = try row.uuid("user_id")
        registeredAt = try row.optionalMoment("created_at")
        lastSeenAt = try row.optionalMoment("last_seen_at")
        into = try row.optionalUUID("into_id")
        let issuers = try row.strings("issuers")
        let subjects = try row.strings("subjects")
        let moments = try row.int64s("subjects_created_at")
        names = issuers.indices.map { index in
            Name(
                subject: Subject(issuer: ByteExactString(issuers[index]), text: ByteExactString(subjects[index])),
                createdAt: Timestamp(microseconds: moments[index])
            )
        }
    }
}
