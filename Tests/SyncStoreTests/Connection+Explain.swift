import Postgres

/// How the server executes statements, as EXPLAIN ANALYZE tells it, in transactions that are undone.
extension Connection {
    /// Of what was prepared: `name(values)`.
    ///
    /// - Parameter shape: what the transaction begins with.
    func explain(_ call: String, _ shape: [Query] = []) async throws -> String {
        let query = Query(Statement("", "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE \(call)"))
        let rows = try await run([.begin] + shape + [query, .rollback])[shape.count + 1]
        return try (0..<rows.count).map { try rows.string($0, 0) }.joined(separator: "\n")
    }

    /// Of a statement and values of its parameters, as SQL. The statement's name is the first line.
    func explain(_ statement: Statement, _ values: String, _ shape: [Query] = []) async throws -> String {
        try await execute(script: "PREPARE explained AS \(statement.sql)")
        let plan = try await explain("explained(\(values))", shape)
        try await execute(script: "DEALLOCATE explained")
        return "\(statement.name)\n\(plan)"
    }

    /// The same with a plan for these values and with one for all values. The first line says which.
    func plans(of statement: Statement, _ values: String, _ shape: [Query] = []) async throws -> [String] {
        var plans: [String] = []
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let setting = Query(Statement("", "SET LOCAL plan_cache_mode = \(mode)"))
            plans.append("\(mode) \(try await explain(statement, values, [setting] + shape))")
        }
        return plans
    }
}

/// How many pages a plan that was executed looked at.
func pages(in plan: String) -> Int {
    // what the planner read of the catalog stands behind the plan, and the first line is the whole plan's
    let lines = plan.split(separator: "\n").prefix { !$0.contains("Planning:") }
    let line = lines.first { $0.contains("Buffers:") } ?? ""
    return line.matches(of: /(?:hit|read)=(\d+)/).compactMap { Int($0.output.1) }.reduce(0, +)
}
