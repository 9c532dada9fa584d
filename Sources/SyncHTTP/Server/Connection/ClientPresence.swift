import HTTPTypes
import HummingbirdCore
import Metrics
import NIOCore
import NIOHTTPTypes
import ServiceLifecycle
import SyncModel

/// Ends a wait early because the response would now belong to another user. The client must send the request again.
struct WaitEnded: Error {
    let problem: Problem
}

/// Runs waits on behalf of a client, for as long as the client is connected.
enum ClientPresence {
    /// Reads a value, after a wait if the client requested one. If the wait ends early, the value is read immediately.
    static func reading<Value: Sendable>(
        on exchange: Exchange,
        wait: Duration,
        _ read: @escaping @Sendable (_ wait: Duration) async throws -> Value
    ) async throws -> Value {
        if wait > .zero, let found = try await whileWaited(on: exchange, { try await read(wait) }) { return found }
        return try await read(.zero)
    }

    /// Runs an operation that may take long.
    ///
    /// If the client disconnects or the server shuts down, the operation is cancelled, and the result is nil.
    ///
    /// - Throws: `overloaded` if the organization's waits already use its share of all connections; the reason why the
    ///   caller is no longer served; or an error of the operation.
    static func whileWaited<Value: Sendable>(
        on exchange: Exchange,
        _ operation: @escaping @Sendable () async throws -> Value
    ) async throws -> Value? {
        let waits = exchange.budgets.waits
        try waits.take(1, for: exchange.user)
        defer { waits.release(1, of: exchange.user) }
        let (departure, continuation) = AsyncStream<Void>.makeStream()
        await watch(exchange.channel) { continuation.finish() }
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await operation() }
            group.addTask {
                for await _ in departure {}
                return nil
            }
            group.addTask {
                try? await gracefulShutdown()
                return nil
            }
            group.addTask { [check = exchange.isStillServed, interval = exchange.checkInterval] in
                while true {
                    try await Task.sleep(for: interval)
                    do {
                        try await check()
                    } catch let problem as Problem where problem.code.status == 503 {
                        // the check itself failed, so the caller is checked again later
                    } catch let ended as WaitEnded {
                        throw ended.problem
                    }
                }
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }

    private static func watch(_ channel: any Channel, _ action: @escaping @Sendable () -> Void) async {
        let watching = channel.eventLoop.submit {
            try channel.pipeline.syncOperations.handler(type: ConnectionGuard.self).whenGone(action)
        }
        do {
            try await watching.get()
        } catch {
            // the pipeline has ended, because the client's connection has ended
            action()
        }
    }
}

/// The body of a request did not arrive in time. The code that reads the body receives this error and responds with
/// 408.
struct BodyTimedOut: Error {}
