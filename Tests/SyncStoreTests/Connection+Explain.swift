import Postgres

/// How the server executes statements, from EXPLAIN ANALYZE, in transactions that are rolled back.
extension Connection {
    /// The plan of a prepared statement: `name(values)`.
    ///
    /// - Parameter shape: queries at the beginning of the transaction.
    func explain(_ call: String, _ shape: [Query] = []) async throws -> String {
        let query = Query(Statement("", "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE \(call)"))
        let rows = try await run([.begin] + shape + [query, .rollback])[shape.count + 1]
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }.joined(separator: "\n")
    }

    /// The plan of a statement and its parameters' values, as SQL. The first line is the statement's name.
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
    // catalog reads of the planner follow the plan, and the first line counts the whole plan
    let lines = plan.split(separator: "\n").prefix { !$0.contains("Planning:") }
    let line = lines.first { $0.contains("Buffers:") } ?? ""
    return line.matches(of: /(?:hit|read)=(\d+)/).compactMap { Int($0.output.1) }.reduce(0, +)
}
