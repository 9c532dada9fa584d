import JSONText
import Spans
package import SyncModel
import Synchronization
package import Tracing

/// Writes spans as an OTLP request in JSON.
///
/// OTLP/JSON is Protobuf's JSON with two exceptions: ids are hexadecimal instead of base64, and enumerations are
/// numbers. As in Protobuf's JSON, 64-bit numbers are strings.
package struct OTLPEncoder: Sendable {
    /// The maximum length of a text, in bytes. Longer texts are cut.
    static let maximumBytes = 256

    /// The program's attributes, such as `service.name`.
    private let resource: [(key: String, value: String)]
    private let version: String
    private let showsOrganizations: Bool

    /// - Parameter showsOrganizations: whether spans contain the ids of organizations.
    package init(resource: [(key: String, value: String)], version: String, showsOrganizations: Bool = false) {
        self.resource = resource
        self.version = version
        self.showsOrganizations = showsOrganizations
    }

    /// Returns the body of a request.
    package func request(_ spans: [SpanRecord]) -> [UInt8] {
        var writer = JSONWriter(capacity: 512 + spans.count * 768)
        writer.beginObject()
        writer.name("resourceSpans")
        writer.beginArray()
        writer.beginObject()
        writer.name("resource")
        writer.beginObject()
        writer.name("attributes")
        writer.beginArray()
        for (key, value) in resource { write(key, .string(value), to: &writer) }
        writer.endArray()
        writer.endObject()
        writer.name("scopeSpans")
        writer.beginArray()
        writer.beginObject()
        writer.name("scope")
        writer.beginObject()
        writer.member("name", "sluice")
        writer.member("version", version)
        writer.endObject()
        writer.name("spans")
        writer.beginArray()
        for span in spans { write(span, to: &writer) }
        writer.endArray()
        writer.endObject()
        writer.endArray()
        writer.endObject()
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    private func write(_ span: SpanRecord, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("traceId", span.context.traceIDText)
        writer.member("spanId", span.context.spanIDText)
        if let parent = span.parent { writer.member("parentSpanId", parent.spanIDText) }
        writer.member("flags", flags(of: span))
        writer.member("name", cut(span.name))
        writer.member("kind", number(of: span.kind))
        writer.member("startTimeUnixNano", "\(span.start)")
        writer.member("endTimeUnixNano", "\(span.end)")
        writer.name("attributes")
        writer.beginArray()
        var attributes: [(key: String, value: SpanAttribute)] = []
        span.attributes.forEach { attributes.append(($0, $1)) }
        for (key, value) in attributes.sorted(by: { $0.key < $1.key })
        where showsOrganizations || key != SpanKey.organization.name {
            write(key, value, to: &writer)
        }
        writer.endArray()
        if !span.links.isEmpty {
            writer.name("links")
            writer.beginArray()
            for link in span.links {
                writer.beginObject()
                writer.member("traceId", link.traceIDText)
                writer.member("spanId", link.spanIDText)
                writer.endObject()
            }
            writer.endArray()
            if span.droppedLinks > 0 { writer.member("droppedLinksCount", span.droppedLinks) }
        }
        if span.hasFailed {
            writer.name("status")
            writer.beginObject()
            writer.member("code", 2)
            writer.endObject()
        }
        writer.endObject()
    }

    private func write(_ key: String, _ value: SpanAttribute, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("key", key)
        writer.name("value")
        writer.beginObject()
        switch value {
        case .string(let text): writer.member("stringValue", cut(text))
        case .int64(let number): writer.member("intValue", "\(number)")
        case .int32(let number): writer.member("intValue", "\(number)")
        case .bool(let value): writer.member("boolValue", value)
        // only attributes of libraries have other types, and they are written as text
        default: writer.member("stringValue", cut("\(value)"))
        }
        writer.endObject()
        writer.endObject()
    }

    /// Returns the text. A text that is too long is cut between two characters.
    private func cut(_ text: String) -> String {
        guard text.utf8.count > Self.maximumBytes else { return text }
        var end = text.utf8.index(text.startIndex, offsetBy: Self.maximumBytes)
        while end.samePosition(in: text.unicodeScalars) == nil { text.utf8.formIndex(before: &end) }
        return String(text[..<end])
    }

    /// The flags of a span: its `trace_flags`, and whether its parent is in another process.
    ///
    /// Only the span of a request can have a parent in another process.
    private func flags(of span: SpanRecord) -> Int {
        let isKnown = 0x100
        let isRemote = 0x200
        return 1 | isKnown | (span.parent != nil && span.kind == .server ? isRemote : 0)
    }

    private func number(of kind: SpanKind) -> Int {
        switch kind {
        case .internal: 1
        case .server: 2
        case .client: 3
        case .producer: 4
        case .consumer: 5
        }
    }
}

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

/// A span of ``OTLPTracer``. The span has a record only if its trace is recorded.
package struct ExportedSpan: Span {
    /// The maximum number of links of a span.
    static let maximumLinks = 128

    package let context: InstrumentationContext
    private let recording: Recording?

    /// - Parameter queue: receives the record when the span ends; nil for a span that is not recorded.
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

    /// Does nothing. Events are not exported, because the log contains them together with the trace id.
    package func addEvent(_ event: SpanEvent) {}

    /// Records the type of the error. The error's text is omitted, because it could contain user content.
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

/// The record of a span that has not ended yet.
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
            // the system's clock may have been set back during the span
            state.record.end = max(state.record.start, moment)
            return state.record
        }
        if let ended { queue.add(ended) }
    }
}
