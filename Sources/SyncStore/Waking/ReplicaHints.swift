import Foundation
import Postgres
import Synchronization

/// NOTIFY as a hint between replicas. A hint carries no data; what is lost is found by polling, and how often that is
/// done depends on whether hints arrive: each replica listens for its own presence, too. So a proxy of connections that
/// swallows notifications makes the gateway slower to notice, and nothing else.
final class ReplicaHints: Sendable {
    /// How often a replica says that it is here.
    static let presenceInterval: Duration = .seconds(5)
    /// How long a replica that is not heard of counts as there.
    static let memory: Duration = .seconds(16)
    private static let channel = "sluice"

    private struct State {
        var peers: [WakeName: ContinuousClock.Instant] = [:]
        /// When our own presence was first heard on the connection, and last.
        var heardSince: ContinuousClock.Instant?
        var lastHeard: ContinuousClock.Instant?
    }

    private let name = WakeName(feedOf: UUID())
    private let pool: Pool
    private let connection: @Sendable (@escaping @Sendable (String) -> Void) -> ConnectionConfiguration
    private let state = Mutex(State())

    /// - Parameter connection: how to connect, given what is to be called with the payload of each notification.
    init(
        pool: Pool,
        connection: @escaping @Sendable (@escaping @Sendable (String) -> Void) -> ConnectionConfiguration
    ) {
        self.pool = pool
        self.connection = connection
    }

    /// Whether hints of others are likely to arrive. Not yet in the first second: others may not have heard of us.
    var isHearing: Bool {
        let now = ContinuousClock.now
        return state.withLock { state in
            guard let since = state.heardSince, let last = state.lastHeard else { return false }
            return now - since >= .seconds(1) && now - last < Self.memory
        }
    }

    /// Other replicas that were heard of lately.
    var peerCount: Int {
        let now = ContinuousClock.now
        return state.withLock { $0.peers.values.count { now - $0 < Self.memory } }
    }

    /// Whether hints are worth sending: others are there, or nobody knows.
    var isHeard: Bool {
        guard isHearing else { return true }
        let now = ContinuousClock.now
        return state.withLock { state in
            // who listens anew has not heard of everybody yet
            if let since = state.heardSince, now - since < Self.presenceInterval + .seconds(1) { return true }
            return state.peers.values.contains { now - $0 < Self.memory }
        }
    }

    /// Listens until the task is cancelled; connects again when the connection is lost.
    ///
    /// - Parameter onHint: what others say; of their presence, only the first time. Called on the connection's thread: it must be quick.
    func listen(_ onHint: @escaping @Sendable (HintMessage) -> Void) async {
        let configuration = connection { [weak self] in self?.take($0, onHint) }
        while !Task.isCancelled {
            if let listening = try? await Connection.open(configuration) {
                _ = try? await listening.run(Query(Self.listenStatement))
                await send(.presence)
                // what was said meanwhile is lost
                onHint(.everything)
                while listening.isUsable, !Task.isCancelled { try? await Task.sleep(for: .milliseconds(500)) }
                listening.close()
                state.withLock { $0 = State() }
            }
            try? await Task.sleep(for: .milliseconds(500))
        }
    }

    /// Says that this replica is here, again and again until the task is cancelled.
    func keepPresent() async {
        while !Task.isCancelled {
            await send(.presence)
            try? await Task.sleep(for: Self.presenceInterval)
        }
    }

    /// Tells the other replicas. A hint that fails is as good as one that is lost.
    func send(_ message: HintMessage) async {
        var parameters = Parameters()
        parameters.add(message.text(from: name))
        _ = try? await pool.run([Query(Self.notifyStatement, parameters)])
    }

    private func take(_ payload: String, _ onHint: @Sendable (HintMessage) -> Void) {
        guard let (sender, message) = HintMessage.read(payload) else { return }
        let now = ContinuousClock.now
        if sender == name {
            state.withLock { state in
                state.heardSince = state.heardSince ?? now
                state.lastHeard = now
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
    /// A hint need not survive a crash of the server: nobody waits for a disk.
    static let notifyStatement = Statement(
        "hints_notify",
        "SELECT set_config('synchronous_commit', 'off', true), pg_notify('\(channel)', $1)"
    )
}
