import ServiceLifecycle
import Synchronization

/// Knows whether the private server runs, and ends the gateway when it does not.
final class DatabaseWatch: Service {
    private let log: String
    private let isOver = Mutex(false)
    private let ends: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init(log: String) {
        self.log = log
        (ends, continuation) = AsyncStream.makeStream()
    }

    var hasEnded: Bool { isOver.withLock { $0 } }

    func serverEnded() {
        isOver.withLock { $0 = true }
        continuation.finish()
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in self.ends {}
        }
        if hasEnded { throw failure("The private PostgreSQL server has ended") }
    }

    /// An error with the last lines of the server's log.
    func failure(_ what: String) -> DevelopmentError {
        let lines = (Folder.text(of: log) ?? "").split(separator: "\n").suffix(5).map { "  \($0)" }
        return DevelopmentError(([what + "; the end of \(log):"] + lines).joined(separator: "\n"))
    }
}
