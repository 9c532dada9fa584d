extension Pool {
    private static let retryBackoff = Backoff(first: .milliseconds(5), longest: .milliseconds(250))

    /// Runs `body` between BEGIN and COMMIT on one connection.
    ///
    /// Any error that it throws rolls back.
    ///
    /// A serialization failure, a deadlock or a lock time-out runs `body` again after a jittered pause, up to
    /// `attempts` times in all (at least once), so `body` must have no effects outside the transaction. Throws what the
    /// last attempt threw. `connectionLost` may mean that COMMIT took effect.
    nonisolated(nonsending) public func transaction<T: Sendable>(
        attempts: Int = 5,
        _ body: nonisolated(nonsending) (Connection) async throws -> T
    ) async throws -> T {
        let retry = Retry(attempts) { Self.retryBackoff.delay(afterFailures: $0, jitter: .random(in: 0...1)) }
        return try await retry.run { error, _ in
            !Task.isCancelled && (error as? PostgresError)?.isRetryable ?? false
        } _: {
            return try await withConnection { connection in
                _ = try await connection.run(.begin)
                let value = try await body(connection)
                _ = try await connection.run(.commit)
                return value
            }
        }
    }
}
