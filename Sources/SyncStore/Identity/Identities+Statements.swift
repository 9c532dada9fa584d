package import Foundation
package import Postgres
package import SyncModel

extension Identities {
    /// Looks up the user that a subject is.
    package static func find(_ subject: Subject, in organization: UUID) -> Query {
        findStatement(organization: organization, issuer: subject.issuer.string, subject: subject.text.string)
    }

    /// Gives a subject an id unless it has one, and reads which one it has then.
    ///
    /// A second transaction waits for the first one's commit and finds its id, because a statement sees what was
    /// committed before it began.
    package static func make(_ subject: Subject, _ user: UUID, in organization: UUID, at moment: Timestamp) -> [Query] {
        return [
            makeStatement(
                organization: organization,
                issuer: subject.issuer.string,
                subject: subject.text.string,
                user: user,
                now: moment
            ), find(subject, in: organization),
        ]
    }

    static func organization(_ name: ExternalID) -> Query {
        organizationStatement(issuer: name.issuer.string, external_id: name.id.string)
    }

    /// Whether a subject's user was erased.
    package static func erased(_ subject: Subject, in organization: UUID) -> Query {
        erasedStatement(organization: organization, issuer: subject.issuer.string, subject: subject.text.string)
    }

    private static let erasedText = """
        SELECT 1 FROM erasure_salts z
        CROSS JOIN LATERAL (
            SELECT 1 FROM erased_subjects x
            WHERE x.organization_id = :organization
                AND x.subject_hash = \(ErasedUsers.subjectHash(salt: "z.salt", issuer: ":issuer", subject: ":subject"))
            OFFSET 0
        ) e
        WHERE z.organization_id = :organization
        """

    private static let erasedStatement = Statement(
        "identities_erased",
        ["organization", "issuer", "subject"],
        erasedText
    )

    private static let findStatement = Statement(
        "identities_find",
        ["organization", "issuer", "subject"],
        "SELECT user_id FROM user_subjects WHERE organization_id = :organization AND issuer = :issuer AND subject = :subject"
    )

    /// Inserts a subject.
    ///
    /// Holds the organization's row, as creating a lane does: a purged organization takes no new rows. The subject of
    /// an erased user is given no other id.
    private static let makeStatement = Statement(
        "identities_make",
        ["organization", "issuer", "subject", "user", "now"],
        """
        INSERT INTO user_subjects AS s (organization_id, issuer, subject, user_id, created_at)
        SELECT :organization::uuid, :issuer::text, :subject::text, :user::uuid, :now::timestamptz
        WHERE (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) <> 'purging'
            AND NOT EXISTS (\(erasedText))
        ON CONFLICT (organization_id, issuer, subject) DO NOTHING
        """
    )

    static let takenStatement = Statement(
        "identities_taken",
        ["organization", "user"],
        "SELECT 1 FROM user_subjects WHERE organization_id = :organization AND user_id = :user LIMIT 1"
    )

    private static let organizationStatement = Statement(
        "identities_organization",
        ["issuer", "external_id"],
        "SELECT organization_id FROM external_ids WHERE issuer = :issuer AND external_id = :external_id"
    )

    static let statements = [findStatement, makeStatement, takenStatement, organizationStatement, erasedStatement]
}
