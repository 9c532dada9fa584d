import Foundation
import Postgres

extension Query {
    /// The query where rows of any organizations are asked for, and what a cluster is asked instead where all are of one:
    /// a statement of one table, with the organization as a parameter, whose plan the server that it comes to keeps.
    /// Plain PostgreSQL is never asked so: it would be free to read the whole table.
    ///
    /// - Parameters:
    ///   - rows: what is asked for.
    ///   - alternative: the query for rows of this organization.
    func orOfOne<Row: Sendable>(
        _ rows: [Row],
        _ organization: (Row) -> UUID,
        _ alternative: @escaping @Sendable (UUID) -> Query
    ) -> Query {
        guard let first = rows.first.map(organization) else { return self }
        guard rows.allSatisfy({ organization($0) == first }) else { return self }
        var query = self
        query.alternative = { alternative(first) }
        return query
    }
}
