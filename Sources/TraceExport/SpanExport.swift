import Logging
import SyncModel

/// The response to an export.
package enum ExportAnswer: Sendable {
    /// The receiver has accepted all spans except for the given number.
    case accepted(rejected: Int)
    /// The receiver cannot process the request, even if it is repeated.
    case refused(String)
    /// The receiver is unavailable or overloaded.
    case failed(String, retryAfter: Duration? = nil)
}

/// Sends the spans of the queue, batch by batch, and retries with back-off while the receiver is unavailable.
struct SpanExport {
    /// A function that sends a request within a time limit.
    typealias Send = @Sendable (_ body: [UInt8], _ timeout: Duration) async -> ExportAnswer

    static let timeout: Duration = .seconds(5)

    let queue: SpanQueue
    let encoder: OTLPEncoder
    let metrics: TraceMetrics
    let logger: Logger
    let now: @Sendable () -> ContinuousClock.Instant
    let send: Send

    /// The batch that is being sent or retried.
    private var batch: [SpanRecord] = []
    private var backoff = ExportBackoff()

    init(
        _ queue: SpanQueue,
        encoder: OTLPEncoder,
        metrics: TraceMetrics,
        logger: Logger,
        now: @escaping @Sendable () -> ContinuousClock.Instant,
        send: @escaping Send
    ) {
        self.queue = queue
        self.encoder = encoder
        self.metrics = metrics
        self.logger = logger
        self.now = now
        self.send = send
    }

    /// Sends the waiting spans at each signal of the queue, until the queue is closed or the task is cancelled.
    ///
    /// A cancellation ends the current request. The batch of this request is kept for ``flush(within:)``.
    mutating func serve() async {
        for await _ in queue.signals { await run() }
    }

    /// Sends the waiting spans, unless it is too early after a failure.
    mutating func run() async {
        guard backoff.permits(at: now()) else { return }
        while !Task.isCancelled, await sendNext(within: Self.timeout) {}
    }

    /// Tries a last time to send the waiting spans, and drops all spans that cannot be sent within the time.
    mutating func flush(within limit: Duration) async {
        let end = now() + limit
        while case let rest = end - now(), rest > .zero, await sendNext(within: min(rest, Self.timeout)) {}
        metrics.drop(batch.count, .shutdown)
        repeat {
            batch = queue.takeBatch()
            metrics.drop(batch.count, .shutdown)
        } while !batch.isEmpty
    }

    /// - Returns: whether more spans may be sent now.
    private mutating func sendNext(within timeout: Duration) async -> Bool {
        if batch.isEmpty { batch = queue.takeBatch() }
        guard !batch.isEmpty else { return false }
        switch await send(encoder.request(batch), timeout) {
        case .accepted(let rejected):
            metrics.export(max(0, batch.count - rejected))
            metrics.drop(min(rejected, batch.count), .refused)
            if backoff.succeed() { logger.notice("Traces are exported again") }
        case .refused(let reason):
            metrics.failure()
            metrics.drop(batch.count, .refused)
            // the receiver works, but a setting is wrong
            if backoff.fail(at: now(), jitter: 1) { log(reason) }
            batch = []
            return false
        // the request failed because the task was cancelled, and not because of the receiver
        case .failed where Task.isCancelled:
            return false
        case .failed(let reason, let pause):
            metrics.failure()
            if backoff.fail(at: now(), atLeast: pause, jitter: .random(in: 0...1)) { log(reason) }
            return false
        }
        batch = []
        return true
    }

    private func log(_ reason: String) {
        logger.warning(
            "Traces cannot be exported; spans are dropped while this lasts",
            metadata: ["reason": "\(reason)"]
        )
    }
}

/// The pauses after failed exports. A pause doubles after each failure, up to a limit.
struct ExportBackoff {
    static let base: Duration = .seconds(1)
    static let cap: Duration = .seconds(60)

    private var failures = 0
    private var retryAt: ContinuousClock.Instant?

    /// Returns whether an export may be attempted.
    func permits(at now: ContinuousClock.Instant) -> Bool { retryAt.map { $0 <= now } ?? true }

    /// Records a failure.
    ///
    /// - Parameters:
    ///   - pause: the pause that the receiver has requested. It is limited to ``cap``.
    ///   - jitter: a number from 0 to 1, which places the pause between half of the back-off and the whole back-off.
    /// - Returns: whether the failure is the first of an outage.
    mutating func fail(at now: ContinuousClock.Instant, atLeast pause: Duration? = nil, jitter: Double) -> Bool {
        let backoff = min(Self.cap, Self.base * (1 << min(failures, 10)))
        failures += 1
        retryAt = now + max(min(pause ?? .zero, Self.cap), backoff * (0.5 + jitter / 2))
        return failures == 1
    }

    /// Records a success.
    ///
    /// - Returns: whether the success ends an outage.
    mutating func succeed() -> Bool {
        defer { self = ExportBackoff() }
        return failures > 0
    }
}
