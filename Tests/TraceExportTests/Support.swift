import JSONText
import Logging
import Spans
import SyncModel
import Synchronization
import Telemetry
import Tracing

@testable import TraceExport

/// Metrics of a separate registry, so that a test can read its counts.
struct CountedExport {
    let registry = PrometheusRegistry()
    let metrics: TraceMetrics

    init() {
        metrics = TraceMetrics(factory: PrometheusMetricsFactory(registry))
    }

    var exported: Double { registry.total(TraceMetrics.exported, []) }
    var failures: Double { registry.total(TraceMetrics.failures, []) }

    func dropped(_ reason: TraceMetrics.Loss) -> Double {
        registry.total(TraceMetrics.dropped, [("reason", reason.rawValue)])
    }
}

/// A clock that only the test advances.
final class ManualClock: Sendable {
    private let moment = Mutex(ContinuousClock.now)

    var now: ContinuousClock.Instant { moment.withLock { $0 } }

    func advance(_ duration: Duration) { moment.withLock { $0 += duration } }
}

/// A receiver whose answers the test chooses.
final class ScriptedReceiver: Sendable {
    private struct State {
        var answer = ExportAnswer.accepted(rejected: 0)
        var batches: [Int] = []
    }

    private let state = Mutex(State())

    /// The number of spans in each request, in order.
    var batches: [Int] { state.withLock { $0.batches } }

    func answer(_ answer: ExportAnswer) { state.withLock { $0.answer = answer } }

    func send(_ body: [UInt8], _ timeout: Duration) -> ExportAnswer {
        let resource = (try? JSONTree(parsing: body))?.root.value(at: "/resourceSpans/0/scopeSpans/0/spans")
        return state.withLock { state in
            state.batches.append(resource?.elements.map(Array.init)?.count ?? -1)
            return state.answer
        }
    }
}

/// A receiver that does not answer the first request until the request is ended. Another receiver answers later
/// requests.
final class HangingReceiver: Sendable {
    private let next: ScriptedReceiver
    private let limits = Mutex([Duration]())
    /// Yields a value when the first request arrives.
    private let arrivals = AsyncStream.makeStream(of: Void.self)
    /// Never yields a value. Its reader waits until its task is cancelled.
    private let answers = AsyncStream.makeStream(of: Void.self)

    init(_ next: ScriptedReceiver) { self.next = next }

    /// The time limit of each request, in order.
    var timeouts: [Duration] { limits.withLock { $0 } }

    /// Waits until the first request has arrived.
    func firstRequest() async {
        for await _ in arrivals.stream { return }
    }

    func send(_ body: [UInt8], _ timeout: Duration) async -> ExportAnswer {
        let count = limits.withLock { limits in
            limits.append(timeout)
            return limits.count
        }
        guard count == 1 else { return next.send(body, timeout) }
        arrivals.continuation.yield()
        for await _ in answers.stream {}
        return .failed("no response: cancelled")
    }
}

/// The messages of a logger.
final class LogMessages: LogHandler, Sendable {
    private let list = Mutex([String]())

    var messages: [String] { list.withLock { $0 } }
    var logger: Logger { Logger(label: "test") { _ in self } }

    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) { list.withLock { $0.append("\(event.message)") } }
}

func record(_ name: String = "push", under parent: TraceContext? = nil) -> SpanRecord {
    SpanRecord(name, .internal, at: (parent ?? TraceContext()).child(sampled: true), under: parent, since: 1)
}

/// Returns an encoder of the tests' gateway.
func encoder(showsOrganizations: Bool = false) -> OTLPEncoder {
    OTLPEncoder(
        resource: [("service.name", "sluice"), ("service.version", "1.2.3")],
        version: "1.2.3",
        showsOrganizations: showsOrganizations
    )
}
