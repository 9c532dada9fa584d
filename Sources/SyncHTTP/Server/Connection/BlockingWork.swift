import GroupCommit
package import SyncModel

/// Runs work on another thread if it would block the other connections of an event loop.
package enum BlockingWork {
    /// The size in bytes up to which a body is decoded within about a millisecond.
    package static let quicklyRead = 65_536

    /// The size in bytes above which a body is decoded only while no other work needs the processor core. The decoding
    /// of such a body would otherwise delay other work for too long.
    private static let slowlyRead = 131_072

    /// Runs an operation away from the connection's event loop.
    package static func run<Value>(_ operation: @Sendable () async throws -> Value) async throws -> Value {
        try await withTaskExecutorPreference(BackgroundExecutor.executor, operation: operation)
    }

    /// Runs an operation on a body of this size away from the connection's event loop.
    package static func run<Value>(on bytes: Int, _ operation: @Sendable () async throws -> Value) async throws -> Value
    {
        try await withTaskExecutorPreference(executor(for: bytes), operation: operation)
    }

    private static func executor(for bytes: Int) -> any TaskExecutor {
        bytes > slowlyRead ? BackgroundExecutor.executor : globalConcurrentExecutor
    }

    /// Decodes a body. A large body is decoded away from the connection's event loop.
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

    /// Decodes the body of a request by a program, which can wait longer than a device. A large body is decoded while
    /// no other work needs the processor core.
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

    /// The size in bytes above which a body is decoded in the background if its sender can wait.
    private static let backgroundRead = 16_384
}
