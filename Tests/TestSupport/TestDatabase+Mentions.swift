import Postgres

extension TestDatabase {
    /// The tables with rows that contain a text, with the number of such rows.
    package func mentions(of text: String) async throws -> [String: Int] {
        let connection = try await connect()
        defer { connection.close() }
        let list = Statement(
            "mentions_tables",
            """
            SELECT relname::text FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
                -- replicas register there when they like; it holds nothing of a tenant's
                AND relname <> 'gateways'
            ORDER BY relname
            """
        )
        let found = try await connection.run(Query(list))
        let parts = try (0..<found.count).map { row in
            let table: String = try found.read(row, 0)
            return """
                SELECT '\(table)', count(*) FROM (SELECT x::text AS t FROM \(table) x) s
                WHERE strpos(lower(t), lower($1)) > 0
                """
        }
        var parameters = Parameters()
        parameters.add(text)
        let statement = Statement("", parts.joined(separator: " UNION ALL "))
        let rows = try await connection.run(Query(statement, parameters))
        var mentions: [String: Int] = [:]
        for row in 0..<rows.count {
            let count = Int(try rows.read(row, 1, as: Int64.self))
            if count > 0 { mentions[try rows.read(row, 0, as: String.self)] = count }
        }
        return mentions
    }
}
