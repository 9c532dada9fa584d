import Postgres
import Synchronization

/// NOTIFY as a hint between replicas: somebody has more lanes due than it can run. It carries no data; what is lost is
/// found by polling.
final class LaneHints: Sendable {
    private static let channel = "sluice_lanes"

    private let pool: Pool
    private let connection: @Sendable (@escaping @Sendable () -> Void) -> ConnectionConfiguration
    private let lastSent = Mutex<ContinuousClock.Instant?>(nil)

    /// - Parameter connection: how to connect, given what is to be called on each notification.
    init(
        pool: Pool,
        connection: @escaping @Sendable (@escaping @Sendable () -> Void) -> ConnectionConfiguration
    ) {
        self.pool = pool
        self.connection = connection
    }

    /// Listens until the task is cancelled; connects again when the connection is lost.
    func listen(_ onHint: @escaping @Sendable () -> Void) async {
        while !Task.isCancelled {
            if let listening = try? await Connection.open(connection(onHint)) {
                _ = try? await listening.run(Query(Self.listenStatement))
                while listening.isUsable, !Task.isCancelled { try? await Task.sleep(for: .seconds(5)) }
                listening.close()
            }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    /// Tells the others, unless that was done within the last second.
    func send() async {
        let isDue = lastSent.withLock { last in
            let now = ContinuousClock.now
            if let last, now - last < .seconds(1) { return false }
            last = now
            return true
        }
        guard isDue else { return }
        // a hint that fails is as good as one that is lost
        _ = try? await pool.run([Query(Self.notifyStatement)])
    }

    static let listenStatement = Statement("lanes_listen", "LISTEN \(channel)")
    static let notifyStatement = Statement("lanes_notify", "SELECT pg_notify('\(channel)', '')")
}
