import Foundation
import Postgres
import SyncModel
import SyncStore

/// Rows of a table by their age, a page at a time; rows of the same moment by their keys.
struct AgedRows: Sendable {
    let statement: Statement

    /// - Parameters:
    ///   - owner: the column with the user.
    ///   - id: the column that distinguishes a user's rows.
    ///   - condition: a further condition on a row `t`; ends in `AND`.
    ///   - isDue: whether a row `t` is to be processed; the cutoff is `:cutoff`.
    init(
        _ name: String,
        of table: String,
        owner: String = "user_id",
        id: String = "id",
        by age: String,
        where condition: String = "",
        isDue: String = "true"
    ) {
        statement = Statement(
            name,
            ["organization", "after_age", "after_user", "after_id", "cutoff", "limit"],
            """
            SELECT t.\(owner) AS user_id, t.\(id) AS id, t.\(age) AS age, \(isDue) AS is_due
            FROM \(table) t
            WHERE t.organization_id = :organization AND \(condition) t.\(age) >= :after_age
                AND (t.\(age), t.\(owner), t.\(id)) > (:after_age, :after_user, :after_id) AND t.\(age) < :cutoff
            ORDER BY t.\(age), t.\(owner), t.\(id)
            LIMIT :limit
            """
        )
    }

    func page(_ organization: UUID, after place: RetentionPosition?, before cutoff: Timestamp, limit: Int) -> Query {
        let last = place.aged
        return statement(
            organization: organization,
            after_age: last.age,
            after_user: last.user,
            after_id: last.id,
            cutoff: cutoff,
            limit: Int64(limit)
        )
    }
}

extension RetentionPosition? {
    /// The age, user and id behind which a page begins.
    var aged: (age: Timestamp, user: UUID, id: UUID) {
        if case .aged(let age, let user, let id) = self { (age, user, id) } else { (.longAgo, .least, .least) }
    }
}
