import AsyncHTTPClient
import JSONText
package import Logging
package import Metrics
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// Sends OTLP requests to a receiver over HTTP.
package final class OTLPSender: Sendable {
    private static let maximumAnswerBytes = 65_536

    private let url: String
    private let headers: [(name: String, value: String)]
    private let userAgent: String
    private let client: HTTPClient
    private let logger: Logger

    /// Creates a sender without connections. Call ``shutdown()`` before the last reference is released.
    ///
    /// - Parameters:
    ///   - endpoint: the base URL of the receiver, without a slash at its end.
    ///   - headers: additional headers, such as a credential.
    package init(endpoint: String, headers: [(name: String, value: String)], version: String, logger: Logger) {
        url = endpoint + "/v1/traces"
        self.headers = headers
        userAgent = "sluice/\(version)"
        self.logger = logger
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.timeout.connect = .seconds(3)
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.httpVersion = .http1Only
        // exports are not traced, because the spans of an export would cause another export
        configuration.tracing.tracer = nil
        // requests and connections use one event loop; HTTPUpstreamConfiguration.swift explains why
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        client = HTTPClient(eventLoopGroupProvider: .shared(loop), configuration: configuration)
    }

    package func shutdown() async {
        do {
            try await client.shutdown()
        } catch {
            logger.debug("Connections were not closed", metadata: ["error": "\(type(of: error))"])
        }
    }

    /// Sends a request. Failures are returned as an ``ExportAnswer``.
    package func send(_ body: [UInt8], within timeout: Duration) async -> ExportAnswer {
        var fields = HTTPHeaders(headers.map { ($0.name, $0.value) })
        fields.replaceOrAdd(name: "Content-Type", value: "application/json")
        fields.replaceOrAdd(name: "User-Agent", value: userAgent)
        guard
            let request = try? HTTPClient.Request(
                url: url,
                method: .POST,
                headers: fields,
                body: .byteBuffer(ByteBuffer(bytes: body))
            )
        else { return .refused("the URL cannot be used") }
        let collector = ResponseAccumulator(request: request, maxBodySize: Self.maximumAnswerBytes)
        let task = client.execute(request: request, delegate: collector, deadline: .now() + TimeAmount(timeout))
        do {
            let response = try await withTaskCancellationHandler {
                try await task.futureResult.get()
            } onCancel: {
                task.cancel()
            }
            let retryAfter = response.headers.first(name: "Retry-After")
            return Self.answer(
                Int(response.status.code),
                retryAfter,
                Array(response.body?.readableBytesView ?? .init())
            )
        } catch {
            return .failed("no response: \(error)")
        }
    }

    /// Returns the meaning of a response (OTLP 1.9, OTLP/HTTP Response).
    static func answer(_ status: Int, _ retryAfter: String?, _ body: [UInt8]) -> ExportAnswer {
        switch status {
        case 200...299: return .accepted(rejected: rejected(body))
        case 429, 502, 503, 504:
            let seconds = retryAfter.flatMap(Int.init).map { max(0, $0) }
            return .failed("status \(status)", retryAfter: seconds.map { .seconds($0) })
        default: return .refused("status \(status)")
        }
    }

    /// Returns the number of spans that the receiver rejected. As a 64-bit number it should be a string in JSON, but
    /// some receivers send a JSON number.
    private static func rejected(_ body: [UInt8]) -> Int {
        guard let value = (try? JSONTree(parsing: body))?.root["partialSuccess"]?["rejectedSpans"] else { return 0 }
        let text = value.kind == .number ? String(decoding: value.raw, as: UTF8.self) : value.string
        return text.flatMap(Int.init) ?? 0
    }
}

/// A queue of ended spans, which wait for the exporter. If the queue is full because the receiver is too slow, new
/// spans are dropped.
///
/// Adding a span never waits.
package final class SpanQueue: Sendable {
    /// The maximum number of waiting spans: about 4 MB.
    package static let capacity = 4_096
    /// The maximum number of spans in a request.
    package static let batch = 512

    private let capacity: Int
    private let batch: Int
    private let spans = Mutex([SpanRecord]())
    private let metrics: TraceMetrics
    /// Yields a value when a batch is full, and at each ``tick()``. Supports one reader.
    let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation

    package init(capacity: Int = SpanQueue.capacity, batch: Int = SpanQueue.batch, metrics: TraceMetrics) {
        self.capacity = capacity
        self.batch = batch
        self.metrics = metrics
        (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// The number of waiting spans.
    package var count: Int { spans.withLock { $0.count } }

    /// Adds a span, unless the queue is full.
    package func add(_ span: SpanRecord) {
        let count: Int? = spans.withLock { spans in
            guard spans.count < capacity else { return nil }
            spans.append(span)
            return spans.count
        }
        guard let count else { return metrics.drop(1, .queueFull) }
        if count == batch { signal.yield() }
    }

    /// Removes and returns the oldest spans, at most ``batch``.
    func takeBatch() -> [SpanRecord] {
        spans.withLock { spans in
            let taken = Array(spans.prefix(batch))
            spans.removeFirst(taken.count)
            return taken
        }
    }

    func tick() { signal.yield() }

    func close() { signal.finish() }
}

/// The metrics of the export of spans.
package struct TraceMetrics: Sendable {
    package static let exported = "sluice_traces_exported_total"
    package static let dropped = "sluice_traces_dropped_total"
    package static let failures = "sluice_traces_export_failures_total"

    /// The reason why spans are lost.
    package enum Loss: String, CaseIterable, Sendable {
        /// The receiver is too slow, or unavailable for too long.
        case queueFull = "queue_full"
        /// The receiver refused the spans.
        case refused
        /// The receiver was unavailable at the gateway's shutdown.
        case shutdown
    }

    private let exported: Counter
    private let failures: Counter
    private let losses: [Loss: Counter]

    package init(factory: any MetricsFactory = MetricsSystem.factory) {
        exported = Counter(label: Self.exported, dimensions: [], factory: factory)
        failures = Counter(label: Self.failures, dimensions: [], factory: factory)
        let losses = Loss.allCases.map { loss in
            (loss, Counter(label: Self.dropped, dimensions: [("reason", loss.rawValue)], factory: factory))
        }
        self.losses = Dictionary(uniqueKeysWithValues: losses)
    }

    func export(_ count: Int) { if count > 0 { exported.increment(by: count) } }

    func drop(_ count: Int, _ reason: Loss) { if count > 0 { losses[reason]?.increment(by: count) } }

    func failure() { failures.increment() }
}
