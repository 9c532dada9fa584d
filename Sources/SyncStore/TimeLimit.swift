import Postgres

/// Runs work with a time limit; unfinished work is cancelled.
///
/// - Throws: what the work throws; `timedOut`.
func within<Value: Sendable>(
    _ limit: Duration,
    _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await work() }
        group.addTask {
            try await Task.sleep(for: limit)
            return nil
        }
        defer { group.cancelAll() }
        guard let value = try await group.next() ?? nil else {
            throw PostgresError(.timedOut, "the request took longer than \(limit)")
        }
        return value
    }
}
