package import FoundationEssentials
import Logging
import Postgres
package import SyncModel

extension Administration {
    /// The maximum number of rows that one statement of a purge deletes, so that transactions stay short.
    static let purgeBatch: Int64 = 5_000

    /// Deletes an organization with all its data, in small batches; returns false if there is no such organization.
    ///
    /// After the first step the organization accepts no new lanes. The purge waits for lanes that are locked by pushes
    /// in progress. Purged data do not reappear. If a purge is interrupted, call this method again to continue.
    package func purge(_ id: UUID) async throws(Problem) -> Bool {
        do {
            guard try await pool.run([Self.closeStatement(organization: id)])[0].affected > 0 else { return false }
            catalog.invalidate(id)
            // a push that began before the status changed may add rows during the first pass; passes are repeated until
            // a pass finds no rows
            var isClean = false
            while !isClean {
                isClean = true
                for statement in Self.purgeStatements(store.tables) {
                    let batch = statement(organization: id, limit: Self.purgeBatch)
                    while try await pool.run([batch])[0].affected > 0 { isClean = false }
                }
            }
            _ = try await pool.transaction { connection in
                try await connection.run(Self.lastStatements(store.tables).map { $0(organization: id) })
            }
            catalog.invalidate(id)
            identities.invalidate()
            logger.notice("Organization purged", metadata: ["organization": "\(id.uuidString.lowercased())"])
            return true
        } catch {
            throw failure.problem(error, doing: "purge an organization")
        }
    }

    /// The maximum number of rows that are counted in each table. The counts are for people and need not be exact.
    package static let extentLimit: Int64 = 1_000_000

    /// Returns the tables with rows that a purge of an organization would delete. The table with the most rows comes
    /// first.
    ///
    /// Rows are counted up to ``extentLimit`` in each table. Tables without rows are omitted.
    package func extent(of id: UUID) async throws(Problem) -> [(table: String, rows: Int64)] {
        var extent: [(table: String, rows: Int64)] = []
        do {
            for (table, statement) in Self.extentStatements(store.tables) {
                let rows = try await pool.run([statement(organization: id, limit: Self.extentLimit)])[0]
                let count: Int64 = try rows.read(0, 0)
                if count > 0 { extent.append((table, count)) }
            }
        } catch {
            throw failure.problem(error, doing: "count an organization's rows")
        }
        return extent.sorted { ($1.rows, $0.table) < ($0.rows, $1.table) }
    }

    /// Returns a counting statement for each table that operators see.
    static func extentStatements(_ tables: [StoredTable]) -> [(table: String, Statement)] {
        tables.filter(\.isShown).map { table in
            let statement = Statement(
                "purge_extent_\(table.name)",
                ["organization", "limit"],
                "SELECT count(*) FROM (SELECT 1 FROM \(table.name) WHERE organization_id = :organization LIMIT :limit) x"
            )
            return (table.name, statement)
        }
    }

    static let closeStatement = Statement(
        "purge_close",
        ["organization"],
        "UPDATE organizations SET status = 'purging' WHERE id = :organization"
    )

    /// The statements that work in small batches, in the order of `tables`.
    static func purgeStatements(_ tables: [StoredTable]) -> [Statement] {
        tables.compactMap { table in
            switch table.purge {
            case .batches: purge(table.name, key: table.key)
            case .keep(let statement): statement
            case .last, .end, .none: nil
            }
        }
    }

    /// The statements of the last transaction. Rows to which other rows refer are deleted last.
    static func lastStatements(_ tables: [StoredTable]) -> [Statement] {
        var (last, end): ([Statement], [Statement]) = ([], [])
        for table in tables {
            guard let organization = table.organization else { continue }
            let statement = Statement(
                "purge_\(table.name)",
                ["organization"],
                "DELETE FROM \(table.name) WHERE \(organization) = :organization"
            )
            switch table.purge {
            case .last: last.append(statement)
            case .end: end.append(statement)
            case .batches, .keep, .none: break
            }
        }
        return last + end
    }

    /// - Parameter key: the columns of the primary key after `organization_id`, in order.
    private static func purge(_ table: String, key: [String]) -> Statement {
        let columns = key.joined(separator: ", ")
        return Statement(
            "purge_\(table)",
            ["organization", "limit"],
            // looks up the last row of the batch, and deletes all rows up to it; a list of rows would be slower,
            // because without statistics PostgreSQL would scan the table for each row of the list
            """
            DELETE FROM \(table) WHERE organization_id = :organization AND (\(columns)) <= (
                SELECT \(columns) FROM (
                    SELECT \(columns) FROM \(table) WHERE organization_id = :organization ORDER BY \(columns) LIMIT :limit
                ) x
                ORDER BY \(key.map { "\($0) DESC" }.joined(separator: ", ")) LIMIT 1)
            """
        )
    }
}
