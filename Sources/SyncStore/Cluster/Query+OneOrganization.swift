import Foundation
import Postgres

extension Query {
    /// The query for rows of any organizations, or the cluster's for one.
    ///
    /// On a cluster, if all rows are of one organization, it uses a statement of one table, with the organization as a
    /// parameter. The server that receives it keeps its plan. Plain PostgreSQL never gets that statement: it would be
    /// free to read the whole table.
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
