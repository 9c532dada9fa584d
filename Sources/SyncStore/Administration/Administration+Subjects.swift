package import Foundation
package import Postgres
package import SyncModel

extension Administration {
    /// Issuers' names of users, by id, of each user that has a subject.
    package func subjects(of users: Set<UUID>, in organization: UUID) async throws(Problem) -> [UUID: [Subject]] {
        guard !users.isEmpty else { return [:] }
        let parameters = Parameters(of: organization, Array(users))
        let found = try await rows(Self.subjectsStatement, parameters, "look up users' subjects") { row in
            (
                user: try row.uuid("user_id"),
                subject: Subject(
                    issuer: ByteExactString(try row.string("issuer")),
                    text: ByteExactString(try row.string("subject"))
                )
            )
        }
        return Dictionary(grouping: found, by: \.user).mapValues { $0.map(\.subject) }
    }

    package static let subjectsStatement = Statement(
        "users_subjects",
        ["organization", "users"],
        """
        SELECT k.user_id, s.issuer, s.subject
        FROM unnest(:users::uuid[]) k (user_id)
        CROSS JOIN LATERAL (
            SELECT x.issuer::text AS issuer, x.subject::text AS subject FROM user_subjects x
            WHERE x.organization_id = :organization AND x.user_id = k.user_id
            OFFSET 0
        ) s
        ORDER BY k.user_id, s.issuer, s.subject
        """
    )
}
