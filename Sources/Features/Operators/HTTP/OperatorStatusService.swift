import FoundationEssentials
import JSONText
import Metrics
import ServiceLifecycle
import SyncHTTP
import SyncModel
import SyncStore
import Synchronization
import Telemetry

/// Serves the operator dashboard. It polls once for all viewers, keeps the last hour and the last day of this gateway's
/// traffic, and streams updates to listeners.
final class OperatorStatusService: Service {
    /// The maximum number of concurrent streams.
    static let maximumListeners = 32
    /// The maximum number of frames that wait for a listener. If a listener is slower, it misses the oldest frames.
    private static let backlog = 16
    /// The number of ticks between two `now` events. A tick is one second.
    private static let nowTicks = 2
    /// The number of ticks between two reads of the oldest waiting mutation. There is one read for each point of the
    /// last hour.
    private static let oldestTicks = 15

    let reader: NowReader
    private let store: Store
    private let registry: PrometheusRegistry
    private let configuration: HTTPConfiguration
    private let circuits: @Sendable (Int) -> [CircuitReport]
    private let history = Mutex(TrafficHistory())
    private let oldest = Mutex(Double?.none)
    private let sampledAt = Atomic<Int64>(.min)
    private let listeners = Mutex(Listeners())
    private let connected = Meter(label: HTTPMetrics.operatorStreams)

    private struct Listeners {
        var all: [UUID: AsyncStream<[UInt8]>.Continuation] = [:]
        var isClosed = false
    }

    init(
        store: Store,
        registry: PrometheusRegistry,
        configuration: HTTPConfiguration,
        circuits: @escaping @Sendable (Int) -> [CircuitReport]
    ) {
        self.store = store
        self.registry = registry
        self.configuration = configuration
        self.circuits = circuits
        reader = store.nowReader
    }

    /// Returns the current state.
    func view(withHistory: Bool) async throws(Problem) -> NowView {
        let state = try await reader.state()
        let traffic = history.withLock { $0 }
        return NowView(
            state: state,
            gateway: store.notifier.gatewayID,
            version: configuration.version,
            now: configuration.now(),
            traffic: traffic,
            showsHistory: withHistory,
            circuits: circuits(NowView.maximumCircuits)
        )
    }

    /// Works until graceful shutdown, which ends all streams.
    func run() async throws {
        await cancelWhenGracefulShutdown { await self.tick() }
        let left = listeners.withLock { listeners in
            listeners.isClosed = true
            return Array(listeners.all.values)
        }
        for listener in left { listener.finish() }
        store.notifier.operatorChanges.setCollecting(false)
    }

    private func tick() async {
        var ticks = 0
        while !Task.isCancelled {
            if ticks.isMultiple(of: Self.oldestTicks) { await readOldest() }
            sample()
            if isListenedTo {
                publishChanges()
                if ticks.isMultiple(of: Self.nowTicks) { await publishStatus() }
            }
            ticks += 1
            try? await Task.sleep(for: .seconds(1))
        }
    }

    // MARK: - Traffic

    private func sample() {
        let moment = configuration.now()
        // if the clock shows the same time for two samples, only one of them is added to the history
        guard sampledAt.exchange(moment.microseconds, ordering: .relaxed) != moment.microseconds else { return }
        let totals = TrafficTotals(registry)
        let oldest = oldest.withLock { $0 }
        history.withLock { $0.record(totals, oldest: oldest, at: moment) }
    }

    /// Reads the oldest waiting mutation, once for each point of the history.
    private func readOldest() async {
        let state = try? await reader.state()
        let age = state.map { state in
            state.oldest.map { max(0, Double(state.at.microseconds - $0.acceptedAt.microseconds) / 1_000_000) } ?? 0
        }
        oldest.withLock { $0 = age }
    }

    // MARK: - Listeners

    private var isListenedTo: Bool { listeners.withLock { !$0.all.isEmpty } }

    /// Returns a stream of event frames, and a function that ends the stream. Returns nil if there are too many
    /// streams.
    ///
    /// The stream also ends when the gateway stops, and when its consumer ends.
    func listen() -> (frames: AsyncStream<[UInt8]>, end: @Sendable () -> Void)? {
        let (stream, continuation) = AsyncStream<[UInt8]>.makeStream(bufferingPolicy: .bufferingNewest(Self.backlog))
        let id = UUID()
        let isTaken = listeners.withLock { listeners in
            guard !listeners.isClosed, listeners.all.count < Self.maximumListeners else { return false }
            listeners.all[id] = continuation
            return true
        }
        guard isTaken else { return nil }
        connected.increment()
        store.notifier.operatorChanges.setCollecting(true)
        continuation.onTermination = { [weak self] _ in self?.leave(id) }
        return (stream, { continuation.finish() })
    }

    private func leave(_ id: UUID) {
        connected.decrement()
        let isLast = listeners.withLock { listeners in
            listeners.all[id] = nil
            return listeners.all.isEmpty
        }
        if isLast { store.notifier.operatorChanges.setCollecting(false) }
    }

    private func publish(_ frame: [UInt8]) {
        for listener in listeners.withLock({ Array($0.all.values) }) { listener.yield(frame) }
    }

    private func publishStatus() async {
        do throws(Problem) {
            publish(OperatorFrame.now(try await view(withHistory: false)))
        } catch {
            // the streams stay open, and this frame shows that the gateway is alive
            publish(EventFrame.keepAlive)
        }
    }

    private func publishChanges() {
        let news = store.notifier.operatorChanges.take()
        for organization in news.organizations { publish(OperatorFrame.changed(organization)) }
        if news.hasOthers { publish(OperatorFrame.changed(nil)) }
        for (operation, organization) in news.operations { publish(OperatorFrame.moved(operation, of: organization)) }
    }
}

/// Frames of the operators' events (WHATWG HTML, 9.2.5).
///
/// The frames have no ids, because a client that reconnects reads the whole state again.
enum OperatorFrame {
    static let opening = Array("retry: 2000\n\n".utf8)

    static func now(_ view: NowView) -> [UInt8] { frame("now", view.json()) }

    /// Returns the frame that reports a change of an organization's data.
    static func changed(_ organization: UUID?) -> [UInt8] {
        frame("changed", JSONWriter.object { $0.member("organization_id", organization) })
    }

    static func moved(_ operation: UUID, of organization: UUID) -> [UInt8] {
        let data = JSONWriter.object { writer in
            writer.member("id", operation)
            writer.member("organization_id", organization)
        }
        return frame("operation", data)
    }

    /// Makes a frame. The data must not contain line breaks.
    private static func frame(_ name: StaticString, _ data: [UInt8]) -> [UInt8] {
        Array("event: \(name)\ndata: ".utf8) + data + Array("\n\n".utf8)
    }
}
