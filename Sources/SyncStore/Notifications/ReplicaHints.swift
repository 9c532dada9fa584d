import FoundationEssentials
import GroupCommit
import Postgres
import Synchronization

/// Sends and receives hints between replicas by NOTIFY.
///
/// A hint has no data. Polls find the changes whose hints are lost, and are more frequent while hints do not arrive. To
/// detect whether hints arrive, each replica also listens for its own presence messages, and checks whether it receives
/// the messages of the other registered replicas. Therefore a connection proxy that drops notifications only delays the
/// detection of changes.
final class ReplicaHints: Sendable {
    /// The interval at which a replica announces its presence.
    static let presenceInterval: Duration = .seconds(5)
    /// The time for which a replica is assumed to be present after its last message.
    static let memory: Duration = .seconds(16)
    private static let channel = "sluice"

    private struct State {
        var peers: [WakeName: ContinuousClock.Instant] = [:]
        /// The times at which the connection first and last received this replica's own presence message.
        var receivingSince: ContinuousClock.Instant?
        var lastReceived: ContinuousClock.Instant?
        /// The time since which presence messages of a registered replica have been missing; nil if none are missing.
        var missingSince: ContinuousClock.Instant?
    }

    let id = UUID()
    private let name: WakeName
    private let pool: Pool
    private let connection: @Sendable (@escaping @Sendable (String) -> Void) -> ConnectionConfiguration
    private let state = Mutex(State())
    private let health = Mutex(WriteHealth())

    /// - Parameter connection: returns the configuration of the connection. Its argument is the callback for the
    ///   payload of each notification.
    init(
        pool: Pool,
        connection: @escaping @Sendable (@escaping @Sendable (String) -> Void) -> ConnectionConfiguration
    ) {
        name = WakeName(feedOf: id)
        self.pool = pool
        self.connection = connection
    }

    /// Whether hints of other replicas are likely to arrive.
    ///
    /// The value is false in the first second, because other replicas may not have received this replica's presence
    /// message yet. It is also false while a registered replica has been silent for longer than the presence interval.
    var isReceiving: Bool {
        let now = ContinuousClock.now
        return state.withLock { state in
            guard let since = state.receivingSince, let last = state.lastReceived else { return false }
            if let missing = state.missingSince, now - missing > Self.presenceInterval + .seconds(1) { return false }
            return now - since >= .seconds(1) && now - last < Self.memory
        }
    }

    var peerCount: Int {
        let now = ContinuousClock.now
        return state.withLock { $0.peers.values.count { now - $0 < Self.memory } }
    }

    /// Whether hints should be sent.
    ///
    /// Hints are sent if other replicas exist, or if it is unknown whether other replicas exist.
    var shouldSend: Bool {
        guard isReceiving else { return true }
        let now = ContinuousClock.now
        return state.withLock { state in
            // a replica that has just begun to listen may not have received presence messages of all others
            if let since = state.receivingSince, now - since < Self.presenceInterval + .seconds(1) { return true }
            return state.peers.values.contains { now - $0 < Self.memory }
        }
    }

    /// Listens until the task is cancelled, and reconnects when the connection is lost.
    ///
    /// - Parameter onHint: receives the hints of other replicas, and each replica's first presence message. It is
    ///   called on the connection's thread. Therefore it must be quick.
    func listen(_ onHint: @escaping @Sendable (HintMessage) -> Void) async {
        let configuration = connection { [weak self] in self?.take($0, onHint) }
        while !Task.isCancelled {
            if let listening = try? await Connection.open(configuration) {
                _ = try? await listening.run(Query(Self.listenStatement))
                await send(.presence)
                // hints that were sent before this connection are lost, so everything has to be polled
                onHint(.everything)
                while listening.isUsable, !Task.isCancelled { try? await Task.sleep(for: .milliseconds(500)) }
                listening.close()
                state.withLock { $0 = State() }
            }
            try? await Task.sleep(for: .milliseconds(500))
        }
    }

    /// Announces this replica's presence at intervals until the task is cancelled.
    func runPresenceLoop() async {
        _ = try? await pool.run([Query(Self.forgetStatement)])
        while !Task.isCancelled {
            let isRegistered = await register()
            try? await Task.sleep(for: isRegistered ? Self.presenceInterval : WriteHealth.failingProbeInterval)
        }
    }

    /// The error that prevents this replica's registration because connections of the pool cannot write; nil if there
    /// is no such error.
    var writeFailure: PostgresError? { health.withLock { $0.writeFailure(at: .now) } }

    /// Whether this replica has been registered since its start, which proves that writes are possible.
    var hasWritten: Bool { health.withLock(\.hasWritten) }

    /// A query that tests whether a connection can write, by an update of this replica's row.
    ///
    /// The row exists only after ``runPresenceLoop()`` has registered this replica. Before that, the query changes no
    /// row.
    var probe: Query { Self.probeStatement(gateway: id) }

    /// Registers this replica, and counts the other registered replicas.
    ///
    /// - Returns: whether the registration succeeded.
    @discardableResult func register() async -> Bool {
        let queries = [
            notification(.presence), Self.registerStatement(gateway: id, newest_migration: Schema.newest),
            Self.othersStatement(gateway: id, seconds: Int64(Self.memory.components.seconds)),
        ]
        do {
            let rows = try await pool.run(queries)
            health.withLock { $0.probed(at: .now) }
            record(registered: try rows[2].read(0, 0))
            return true
        } catch {
            if let error = error as? PostgresError { health.withLock { $0.failedProbe(error, at: .now) } }
            return false
        }
    }

    func record(registered: Int) {
        let now = ContinuousClock.now
        state.withLock { state in
            let present = state.peers.values.count { now - $0 < Self.memory }
            state.missingSince = registered > present ? state.missingSince ?? now : nil
        }
    }

    /// Notifies the other replicas. A failed hint is treated as lost.
    func send(_ message: HintMessage) async {
        _ = try? await pool.run([notification(message)])
    }

    private func notification(_ message: HintMessage) -> Query {
        return Self.notifyStatement(message: message.text(from: name))
    }

    private func take(_ payload: String, _ onHint: @Sendable (HintMessage) -> Void) {
        guard let (sender, message) = HintMessage.read(payload) else { return }
        let now = ContinuousClock.now
        if sender == name {
            state.withLock { state in
                state.receivingSince = state.receivingSince ?? now
                state.lastReceived = now
            }
            return
        }
        let isNew = state.withLock { state in
            state.peers = state.peers.filter { now - $0.value < Self.memory }
            return state.peers.updateValue(now, forKey: sender) == nil
        }
        if message != .presence || isNew { onHint(message) }
    }

    static let listenStatement = Statement("hints_listen", "LISTEN \(channel)")
    /// Sends a hint. The transaction is committed without waiting for the disk, because a hint need not survive a crash
    /// of the server.
    static let notifyStatement = Statement(
        "hints_notify",
        ["message"],
        "SELECT set_config('synchronous_commit', 'off', true), pg_notify('\(channel)', :message)"
    )

    // The statement uses the time of the database's clock, which all replicas share.
    static let registerStatement = Statement(
        "gateways_register",
        ["gateway", "newest_migration"],
        """
        INSERT INTO gateways AS g (id, seen_at, newest_migration) VALUES (:gateway::uuid, clock_timestamp(), :newest_migration::text)
        ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
        """
    )
    // Citus allows no volatile functions, such as clock_timestamp(), in an UPDATE.
    static let probeStatement = Statement(
        "gateways_probe",
        ["gateway"],
        "UPDATE gateways AS g SET seen_at = now() WHERE g.id = :gateway::uuid"
    )
    static let othersStatement = Statement(
        "gateways_others",
        ["gateway", "seconds"],
        """
        SELECT count(*) FROM gateways g
        WHERE g.id <> :gateway::uuid AND g.seen_at > clock_timestamp() - :seconds::int8 * interval '1 second'
        """
    )
    static let forgetStatement = Statement(
        "gateways_forget",
        "DELETE FROM gateways g WHERE g.seen_at < now() - interval '1 hour'"
    )

    static let statements = [notifyStatement, registerStatement, probeStatement, othersStatement, forgetStatement]
}

// MARK: - HintMessage

/// A message between replicas by NOTIFY. The message contains names of changed lanes and feeds, and no data.
enum HintMessage: Sendable, Equatable {
    /// The sender is running.
    case presence
    /// More lanes are due than the sender can run.
    case due
    /// Lanes and feeds were changed.
    case changed([WakeName])
    /// More lanes and feeds were changed than a message can name.
    case everything

    /// The maximum number of names in a message. PostgreSQL accepts payloads of less than 8,000 bytes.
    static let maximumNames = 900

    /// Returns the payload: the sender, a letter, and the names.
    func text(from sender: WakeName) -> String {
        var text: [UInt8] = []
        sender.append(to: &text)
        switch self {
        case .presence: text.append(UInt8(ascii: "p"))
        case .due: text.append(UInt8(ascii: "d"))
        case .everything: text.append(UInt8(ascii: "e"))
        case .changed(let names):
            text.append(UInt8(ascii: "c"))
            for name in names { name.append(to: &text) }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Reads a payload; nil for a payload that no replica sends.
    static func read(_ text: String) -> (sender: WakeName, message: HintMessage)? {
        let bytes = Array(text.utf8)
        guard bytes.count > WakeName.length, let sender = WakeName(bytes[..<WakeName.length]) else { return nil }
        let rest = bytes[(WakeName.length + 1)...]
        switch bytes[WakeName.length] {
        case UInt8(ascii: "p"): return (sender, .presence)
        case UInt8(ascii: "d"): return (sender, .due)
        case UInt8(ascii: "e"): return (sender, .everything)
        case UInt8(ascii: "c"):
            let names = stride(from: rest.startIndex, to: rest.endIndex, by: WakeName.length).map {
                WakeName(rest[$0..<min($0 + WakeName.length, rest.endIndex)])
            }
            let known = names.compactMap { $0 }
            return known.count == names.count ? (sender, .changed(known)) : nil
        default: return nil
        }
    }
}
