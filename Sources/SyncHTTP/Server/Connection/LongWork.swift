import SyncModel

/// What takes longer than the other connections of an event loop should wait for: it runs elsewhere.
enum LongWork {
    /// A body that is read within a millisecond or so.
    private static let quicklyRead = 65_536

    /// Runs an operation away from the connection's event loop.
    static func run<Value>(_ operation: @Sendable () async throws -> Value) async throws -> Value {
        try await withTaskExecutorPreference(globalConcurrentExecutor, operation: operation)
    }

    /// Reads a body; a large one away from the connection's event loop.
    static func read<Value: Sendable>(
        _ body: [UInt8],
        _ reader: @Sendable ([UInt8]) throws(Problem) -> Value
    ) async throws(Problem) -> Value {
        guard body.count > quicklyRead else { return try reader(body) }
        let result = await withTaskExecutorPreference(globalConcurrentExecutor) {
            Result { () throws(Problem) in try reader(body) }
        }
        return try result.get()
    }
}
