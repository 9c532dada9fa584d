import GroupCommit
package import SyncModel

/// Runs work elsewhere that would keep the other connections of an event loop waiting.
package enum BlockingWork {
    /// A body up to this size, in bytes, is read within a millisecond or so.
    package static let quicklyRead = 65_536

    /// A body from this size on, in bytes, takes so long that even other threads should not wait for it.
    private static let slowlyRead = 131_072

    /// Runs an operation away from the connection's event loop.
    package static func run<Value>(_ operation: @Sendable () async throws -> Value) async throws -> Value {
        try await withTaskExecutorPreference(BackgroundExecutor.executor, operation: operation)
    }

    /// Runs an operation on a body of so many bytes away from the connection's event loop.
    package static func run<Value>(on bytes: Int, _ operation: @Sendable () async throws -> Value) async throws -> Value
    {
        try await withTaskExecutorPreference(executor(for: bytes), operation: operation)
    }

    private static func executor(for bytes: Int) -> any TaskExecutor {
        bytes > slowlyRead ? BackgroundExecutor.executor : globalConcurrentExecutor
    }

    /// Reads a body; a large one away from the connection's event loop.
    package static func read<Value: Sendable>(
        _ body: [UInt8],
        _ reader: @Sendable ([UInt8]) throws(Problem) -> Value
    ) async throws(Problem) -> Value {
        guard body.count > quicklyRead else { return try reader(body) }
        let result = await withTaskExecutorPreference(executor(for: body.count)) {
            Result { () throws(Problem) in try reader(body) }
        }
        return try result.get()
    }

    /// Reads a body of a program that is not waited for as a phone is, where others need no core for it.
    package static func readInBackground<Value: Sendable>(
        _ body: [UInt8],
        _ reader: @Sendable ([UInt8]) throws(Problem) -> Value
    ) async throws(Problem) -> Value {
        guard body.count > backgroundRead else { return try reader(body) }
        let result = await withTaskExecutorPreference(BackgroundExecutor.executor) {
            Result { () throws(Problem) in try reader(body) }
        }
        return try result.get()
    }

    /// A body from this size on, in bytes, is read in the background where its sender has time.
    private static let backgroundRead = 16_384
}
