import Postgres

/// Reads the plans of statements with EXPLAIN ANALYZE, in transactions that are rolled back.
extension Connection {
    /// Returns the plan of a call of a prepared statement, such as `name(values)`.
    ///
    /// - Parameter shape: the queries that begin the transaction.
    func explain(_ call: String, _ shape: [Query] = []) async throws -> String {
        let query = Query(Statement("", "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE \(call)"))
        let rows = try await run([.begin] + shape + [query, .rollback])[shape.count + 1]
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }.joined(separator: "\n")
    }

    /// Returns the plan of a statement with its parameters' values, given as SQL. The plan's first line is the
    /// statement's name.
    func explain(_ statement: Statement, _ values: String, _ shape: [Query] = []) async throws -> String {
        try await execute(script: "PREPARE explained AS \(statement.sql)")
        let plan = try await explain("explained(\(values))", shape)
        try await execute(script: "DEALLOCATE explained")
        return "\(statement.name)\n\(plan)"
    }

    /// Returns a plan for these values and a generic plan. The first line of each names its kind.
    func plans(of statement: Statement, _ values: String, _ shape: [Query] = []) async throws -> [String] {
        var plans: [String] = []
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let setting = Query(Statement("", "SET LOCAL plan_cache_mode = \(mode)"))
            plans.append("\(mode) \(try await explain(statement, values, [setting] + shape))")
        }
        return plans
    }
}

/// The number of pages that an executed plan read.
func pages(in plan: String) -> Int {
    // the planner's own reads are listed after the plan, below "Planning:"; the first "Buffers:" line includes all
    // nodes of the plan
    let lines = plan.split(separator: "\n").prefix { !$0.contains("Planning:") }
    let line = lines.first { $0.contains("Buffers:") } ?? ""
    return line.matches(of: /(?:hit|read)=(\d+)/).compactMap { Int($0.output.1) }.reduce(0, +)
}
