import Spans
package import SyncModel
import Synchronization
package import Tracing

/// A span that has ended.
package struct SpanRecord: Sendable {
    package let context: TraceContext
    package let parent: TraceContext?
    package let kind: SpanKind
    /// Nanoseconds since 1970.
    package let start: UInt64
    package fileprivate(set) var end: UInt64
    package fileprivate(set) var name: String
    package fileprivate(set) var attributes: SpanAttributes = [:]
    package fileprivate(set) var links: [TraceContext] = []
    /// The links that exceeded the limit.
    package fileprivate(set) var droppedLinks = 0
    package fileprivate(set) var hasFailed = false

    package init(
        _ name: String,
        _ kind: SpanKind,
        at context: TraceContext,
        under parent: TraceContext?,
        since start: UInt64
    ) {
        self.name = name
        self.kind = kind
        self.context = context
        self.parent = parent
        self.start = start
        end = start
    }
}

/// A span of ``OTLPTracer``. It only has a record if its trace is recorded.
package struct ExportedSpan: Span {
    /// The maximum number of links of a span; a group has at most as many jobs.
    static let maximumLinks = 128

    package let context: InstrumentationContext
    private let recording: Recording?

    /// - Parameter queue: receives the record at the end; nil for a span that is not recorded.
    init(_ record: SpanRecord, context: InstrumentationContext, to queue: SpanQueue?) {
        self.context = context
        recording = queue.map { Recording(record, to: $0) }
    }

    package var isRecording: Bool { recording?.isOpen ?? false }

    package var operationName: String {
        get { recording?.record.name ?? "" }
        nonmutating set { recording?.update { $0.name = newValue } }
    }

    package var attributes: SpanAttributes {
        get { recording?.record.attributes ?? [:] }
        nonmutating set { recording?.update { $0.attributes = newValue } }
    }

    package func setStatus(_ status: SpanStatus) { recording?.update { $0.hasFailed = status.code == .error } }

    package func addLink(_ link: SpanLink) {
        guard let target = link.context.trace else { return }
        recording?.update { record in
            guard record.links.count < Self.maximumLinks else { return record.droppedLinks += 1 }
            record.links.append(target)
        }
    }

    /// Events are not exported: the log has them, with the trace id.
    package func addEvent(_ event: SpanEvent) {}

    /// Records the type of the error. Its text could contain user content.
    package func recordError<Instant: TracerInstant>(
        _ error: any Error,
        attributes: SpanAttributes,
        at instant: @autoclosure () -> Instant
    ) {
        recording?.update { $0.attributes.set(SpanKey.errorType.name, value: .string("\(type(of: error))")) }
    }

    package func end<Instant: TracerInstant>(at instant: @autoclosure () -> Instant) {
        recording?.end(at: instant().nanosecondsSinceEpoch)
    }
}

/// The record of a span until its end.
private final class Recording: Sendable {
    private let state: Mutex<(record: SpanRecord, isOpen: Bool)>
    private let queue: SpanQueue

    init(_ record: SpanRecord, to queue: SpanQueue) {
        state = Mutex((record, isOpen: true))
        self.queue = queue
    }

    var record: SpanRecord { state.withLock { $0.record } }
    var isOpen: Bool { state.withLock { $0.isOpen } }

    func update(_ change: (inout SpanRecord) -> Void) {
        state.withLock { if $0.isOpen { change(&$0.record) } }
    }

    func end(at moment: UInt64) {
        let ended: SpanRecord? = state.withLock { state in
            guard state.isOpen else { return nil }
            state.isOpen = false
            // the system's clock may have been set back
            state.record.end = max(state.record.start, moment)
            return state.record
        }
        if let ended { queue.add(ended) }
    }
}
