import CommandSupport
import Logging
import Postgres
import ServiceLifecycle
import SyncDispatch
import Synchronization
import Telemetry
import Tokens

/// The health of a running gateway, except for the health of the database, which the store reports.
///
/// This type determines the response of `/readyz`, and the metric with the same value.
struct GatewayHealth: Sendable {
    let serving: ServingState
    let dispatcher: Dispatcher
    let verifier: TokenVerifier
    /// Checks a database that was unavailable at the start.
    let database: DatabaseWatcher?

    /// The reasons why requests cannot be served; empty if they can be served.
    ///
    /// Until at least one key is available, no request can be served. If the issuers have withdrawn all keys, the
    /// gateway still responds, and refuses all tokens.
    var reasons: [String] {
        let keys = verifier.keyReport
        return serving.reasons + dispatcher.reasons + (Self.isWaiting(keys) ? Self.missing(keys) : [])
            + (database?.reasons ?? [])
    }

    /// Problems that the operator should fix, although requests can be served.
    ///
    /// For example, an issuer without keys does not stop the gateway if tokens of other issuers can be verified.
    var notices: [String] {
        let keys = verifier.keyReport
        return (Self.isWaiting(keys) ? [] : Self.missing(keys)) + keys.empty.map { "\($0) contains no usable key" }
    }

    private static func isWaiting(_ keys: TokenVerifier.KeyReport) -> Bool { keys.isWithoutKeys && keys.empty.isEmpty }

    private static func missing(_ keys: TokenVerifier.KeyReport) -> [String] {
        keys.missing.map { "the keys of \($0) have not been fetched yet" }
    }
}

/// Checks a database that was unavailable at the start of the gateway, when it becomes available.
///
/// The service searches for errors that would have prevented the start. If there is such an error, the gateway keeps
/// running, but does not report that it is ready.
final class DatabaseWatcher: Service {
    private static let interval: Duration = .seconds(1)

    private let databaseURL: String
    private let logger: Logger
    private let reason = Mutex<String?>(nil)

    init(databaseURL: String, logger: Logger) {
        self.databaseURL = databaseURL
        self.logger = logger
    }

    /// The reasons why requests cannot be served; empty while no reason is known.
    var reasons: [String] { reason.withLock { $0.map { [$0] } ?? [] } }

    func run() async throws {
        await cancelWhenGracefulShutdown { await self.runPollLoop() }
        // a service that ends would end the other services
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
