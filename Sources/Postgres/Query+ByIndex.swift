extension Query {
    /// Makes all plans for the rest of a transaction look up rows by index instead of reading whole tables.
    ///
    /// A connection makes the plan of a statement once. Without this setting, a plan that suits a small table would
    /// still be used after the table has grown.
    public static let planByIndex = Query(
        Statement(
            "postgres_plan_by_index",
            """
            SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
                set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
            """
        )
    )

    /// Begins a read-only transaction whose plans look up rows by index.
    public static let beginReadingByIndex = [beginReading, planByIndex]
}

extension Connection {
    /// Runs queries in one pipeline, with plans that look up rows by index.
    ///
    /// The pipeline is part of the open transaction. Without an open transaction, it is one transaction.
    ///
    /// - Parameter opening: queries to run before the setting, such as a BEGIN.
    /// - Returns: the results of `opening`, followed by the results of `queries`.
    public func runByIndex(
        _ queries: [Query],
        after opening: [Query] = [],
        timeout: Duration? = nil
    ) async throws(PostgresError) -> [Rows] {
        var results = try await run(opening + [.planByIndex] + queries, timeout: timeout)
        results.remove(at: opening.count)
        return results
    }

    public func runByIndex(_ query: Query, timeout: Duration? = nil) async throws(PostgresError) -> Rows {
        try await runByIndex([query], timeout: timeout)[0]
    }
}

extension Pool {
    /// Runs queries in one pipeline on one connection, as one implicit transaction whose plans look up rows by index.
    public func runByIndex(_ queries: [Query]) async throws -> [Rows] {
        try await withConnection { try await $0.runByIndex(queries) }
    }

    public func runByIndex(_ query: Query) async throws -> Rows { try await runByIndex([query])[0] }

    /// Runs queries in one pipeline and in one read-only transaction whose plans look up rows by index.
    ///
    /// All queries read the database as of the same moment.
    public func readByIndex(_ queries: [Query]) async throws -> [Rows] {
        let opening = Query.beginReadingByIndex
        return Array(try await run(opening + queries + [.rollback])[opening.count...].dropLast())
    }

    public func readByIndex(_ query: Query) async throws -> Rows { try await readByIndex([query])[0] }
}
