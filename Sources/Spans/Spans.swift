package import SyncModel
package import Tracing

/// Starts spans by the API of swift-distributed-tracing.
///
/// A span is created only if its trace is recorded. Otherwise the span is nil, and no memory is allocated.
package enum Spans {
    /// The process's tracer; nil if spans are off.
    ///
    /// The tracing system must be bootstrapped before the first span, because the tracer is read only once.
    private static let tracer: (any Tracer)? = {
        let tracer = InstrumentationSystem.tracer
        return tracer is NoOpTracer ? nil : tracer
    }()

    /// Whether spans can be recorded.
    package static var isOn: Bool { tracer != nil }

    /// The recorded span in which the task runs; nil if there is no such span.
    package static var current: TraceContext? { isOn ? InstrumentationContext.current?.trace : nil }

    /// Starts a span for work that a client or a timer has caused. The sampler decides whether the span is recorded.
    ///
    /// - Parameter parent: the client's span; nil if the client did not send a span.
    package static func root(_ name: String, _ kind: GatewaySpan.Kind, under parent: TraceContext? = nil)
        -> GatewaySpan?
    {
        guard let tracer else { return nil }
        return start(name, kind, under: parent, at: DefaultTracerClock.now, by: tracer)
    }

    /// Starts a span within another span.
    ///
    /// - Parameters:
    ///   - parent: a span, possibly of another process. If the parent is nil or not recorded, the result is nil.
    ///   - start: the time at which the work began; nil for the present time.
    package static func child(
        _ name: String,
        _ kind: GatewaySpan.Kind = .internal,
        of parent: @autoclosure () -> TraceContext?,
        since start: Moment? = nil
    ) -> GatewaySpan? {
        guard let tracer, let parent = parent(), parent.isSampled else { return nil }
        return self.start(name, kind, under: parent, at: start?.instant ?? DefaultTracerClock.now, by: tracer)
    }

    /// Starts the span of an attempt at an upstream, if the trace of its mutation is recorded.
    ///
    /// Path and query are omitted, because they may contain user content.
    ///
    /// - Parameter resends: the number of earlier attempts. Pass 0 for a batch, because its mutations have different
    ///   numbers of attempts.
    package static func attempt(_ request: UpstreamRequest, _ upstream: UpstreamSettings, resends: Int)
        -> GatewaySpan?
    {
        guard let span = child(request.method, .client, of: request.trace) else { return nil }
        span.set(.method, request.method)
        span.set(organization: request.organization)
        if case .success(let base) = upstream.base { span.set(target: base.text) }
        if resends > 0 { span.set(.resends, resends) }
        for other in request.linkedTraces { span.link(to: other) }
        return span
    }

    private static func start(
        _ name: String,
        _ kind: GatewaySpan.Kind,
        under parent: TraceContext?,
        at instant: DefaultTracerClock.Timestamp,
        by tracer: some Tracer
    ) -> GatewaySpan? {
        var context = InstrumentationContext.topLevel
        if let parent { context.trace = parent }
        let span = tracer.startSpan(name, context: context, ofKind: kind.kind, at: instant)
        guard span.isRecording, let position = span.context.trace else { return nil }
        return GatewaySpan(span, at: position)
    }

    /// Returns the trace context to use for later spans and requests, if the client's request is not recorded.
    ///
    /// If the client's context requests a recording, the result is a context that does not request it. As a result,
    /// later spans of the gateway in this trace are not recorded either.
    package static func unrecorded(_ client: TraceContext?) -> TraceContext? {
        isOn && client?.isSampled == true ? client?.child(sampled: false) : client
    }

    /// A time on the clock of spans.
    package struct Moment: Sendable {
        fileprivate let instant: DefaultTracerClock.Timestamp

        /// The present time; nil if spans are off.
        package static var now: Moment? { isOn ? Moment(instant: DefaultTracerClock.now) : nil }
    }
}

extension Spans {
    /// Runs an operation. Spans that start during the operation become children of `span`, unless `span` is nil.
    ///
    /// - Parameter ends: whether the span ends with the operation. If so, an error of the operation marks the span as
    ///   failed.
    package static func within<Value, Failure>(
        _ span: GatewaySpan?,
        ends: Bool = true,
        isolation: isolated (any Actor)? = #isolation,
        _ operation: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        guard let span else { return try await operation() }
        var context = InstrumentationContext.topLevel
        context.trace = span.context
        let result: Result<Value, Failure> = await InstrumentationContext.withValue(context) {
            do throws(Failure) {
                return .success(try await operation())
            } catch {
                return .failure(error)
            }
        }
        if ends {
            if case .failure(let error) = result { span.fail(error) }
            span.end()
        }
        return try result.get()
    }
}

extension InstrumentationContext {
    private enum TraceKey: InstrumentationContextKey {
        typealias Value = TraceContext
        static var nameOverride: String? { "trace" }
    }

    /// The span that the context identifies.
    package var trace: TraceContext? {
        get { self[TraceKey.self] }
        set { self[TraceKey.self] = newValue }
    }
}
