import CommandSupport
import Logging
import Postgres
import ServiceLifecycle
import Synchronization
import Telemetry

/// Checks a database that was unavailable at the start of the gateway, as soon as it is available.
///
/// It searches for the errors that would have ended the start. If there is one, the gateway keeps running, but does not
/// report that it is ready.
final class DatabaseWatcher: Service {
    private static let interval: Duration = .seconds(1)

    private let databaseURL: String
    private let logger: Logger
    private let reason = Mutex<String?>(nil)

    init(databaseURL: String, logger: Logger) {
        self.databaseURL = databaseURL
        self.logger = logger
    }

    /// Why requests cannot be served; empty while no reason is known.
    var reasons: [String] { reason.withLock { $0.map { [$0] } ?? [] } }

    func run() async throws {
        await cancelWhenGracefulShutdown { await self.keepLooking() }
        // a service that ends would end the others
        try? await gracefulShutdown()
    }

    private func keepLooking() async {
        while !Task.isCancelled {
            let finding = await SchemaCheck.look(at: databaseURL)
            switch finding {
            case .ready(let pooling):
                note(nil)
                PoolerAdvice.note(pooling, to: logger)
                return
            case .unreachable: break
            case .shared: note("the database is behind \(PoolerAdvice.refusal). \(PoolerAdvice.remedy)")
            case .empty, .behind, .unfit: note(finding.words)
            }
            try? await Task.sleep(for: Self.interval)
        }
    }

    private func note(_ new: String?) {
        let isNews = reason.withLock { reason in
            defer { reason = new }
            return reason != new
        }
        guard isNews, let new else { return }
        logger.error("Database is reachable, but cannot be used", metadata: [LogKeys.reason: "\(new)"])
    }
}
