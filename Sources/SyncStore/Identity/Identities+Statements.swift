package import Foundation
package import Postgres
package import SyncModel

extension Identities {
    /// Looks up the user that a subject is.
    package static func find(_ subject: Subject, in organization: UUID) -> Query {
        Query(findStatement, Parameters(organization, subject.issuer.string, subject.text.string))
    }

    /// Gives a subject an id unless it has one, and reads which one it has then.
    ///
    /// A second transaction waits for the first one's commit and finds its id, because a statement sees what was
    /// committed before it began.
    package static func make(_ subject: Subject, _ user: UUID, in organization: UUID, at moment: Timestamp) -> [Query] {
        var parameters = Parameters(organization, subject.issuer.string, subject.text.string)
        parameters.add(user)
        parameters.add(timestamp: moment.microseconds)
        return [Query(makeStatement, parameters), find(subject, in: organization)]
    }

    static func organization(_ name: ExternalID) -> Query {
        Query(organizationStatement, Parameters(name.issuer.string, name.id.string))
    }

    /// Whether a subject's user was erased.
    package static func erased(_ subject: Subject, in organization: UUID) -> Query {
        Query(erasedStatement, Parameters(organization, subject.issuer.string, subject.text.string))
    }

    private static let erased = """
        SELECT 1 FROM erasure_salts z
        CROSS JOIN LATERAL (
            SELECT 1 FROM erased_subjects x
            WHERE x.organization_id = $1
                AND x.subject_hash = \(ErasedUsers.subjectHash(salt: "z.salt", issuer: "$2", subject: "$3"))
            OFFSET 0
        ) e
        WHERE z.organization_id = $1
        """

    private static let erasedStatement = Statement("identities_erased", erased)

    private static let findStatement = Statement(
        "identities_find",
        "SELECT user_id FROM user_subjects WHERE organization_id = $1 AND issuer = $2 AND subject = $3"
    )

    /// Inserts a subject.
    ///
    /// Holds the organization's row, as creating a lane does: a purged organization takes no new rows. The subject of
    /// an erased user is given no other id.
    private static let makeStatement = Statement(
        "identities_make",
        """
        INSERT INTO user_subjects AS s (organization_id, issuer, subject, user_id, created_at)
        SELECT $1::uuid, $2::text, $3::text, $4::uuid, $5::timestamptz
        WHERE (SELECT o.status FROM organizations o WHERE o.id = $1 FOR SHARE) <> 'purging'
            AND NOT EXISTS (\(erased))
        ON CONFLICT (organization_id, issuer, subject) DO NOTHING
        """
    )

    static let takenStatement = Statement(
        "identities_taken",
        "SELECT 1 FROM user_subjects WHERE organization_id = $1 AND user_id = $2 LIMIT 1"
    )

    private static let organizationStatement = Statement(
        "identities_organization",
        "SELECT organization_id FROM external_ids WHERE issuer = $1 AND external_id = $2"
    )

    static let statements = [findStatement, makeStatement, takenStatement, organizationStatement, erasedStatement]
}
