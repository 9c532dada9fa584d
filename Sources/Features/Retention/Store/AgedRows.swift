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
    ///   - isDue: whether a row `t` is to be processed; the cutoff is $5.
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
            """
            SELECT t.\(owner) AS user_id, t.\(id) AS id, t.\(age) AS age, \(isDue) AS is_due
            FROM \(table) t
            WHERE t.organization_id = $1 AND \(condition) t.\(age) >= $2
                AND (t.\(age), t.\(owner), t.\(id)) > ($2, $3, $4) AND t.\(age) < $5
            ORDER BY t.\(age), t.\(owner), t.\(id)
            LIMIT $6
            """
        )
    }

    func page(_ organization: UUID, after place: RetentionPlace?, before cutoff: Timestamp, limit: Int) -> Query {
        var parameters = Parameters(of: organization)
        parameters.add(aged: place)
        parameters.add(timestamp: cutoff.microseconds)
        parameters.add(Int64(limit))
        return Query(statement, parameters)
    }
}

extension Parameters {
    /// The age, user and id behind which a page begins.
    mutating func add(aged place: RetentionPlace?) {
        var (age, user, id) = (Timestamp.longAgo, UUID.least, UUID.least)
        if case .aged(let lastAge, let lastUser, let lastID) = place { (age, user, id) = (lastAge, lastUser, lastID) }
        add(timestamp: age.microseconds)
        add(user)
        add(id)
    }
}
