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
        await cancelWhenGracefulShutdown { await self.runPollLoop() }
        // a service that ends would end the others
        try? await gracefulShutdown()
    }

    private func runPollLoop() async {
        while !Task.isCancelled {
            let finding = await SchemaCheck.check(at: databaseURL)
            switch finding {
            case .ready(let pooling):
                record(nil)
                PoolerAdvice.record(pooling, to: logger)
                return
            case .unreachable: break
            case .shared: record("the database is behind \(PoolerAdvice.refusal). \(PoolerAdvice.remedy)")
            case .empty, .behind, .unfit: record(finding.userMessage)
            }
            try? await Task.sleep(for: Self.interval)
        }
    }

    private func record(_ new: String?) {
        let isChange = reason.withLock { reason in
            defer { reason = new }
            return reason != new
        }
        guard isChange, let new else { return }
        logger.error("Database is reachable, but cannot be used", metadata: [LogKeys.reason: "\(new)"])
    }
}
