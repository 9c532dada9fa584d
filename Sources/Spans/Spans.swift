package import SyncModel
package import Tracing

/// Starts spans by the API of swift-distributed-tracing.
///
/// There is a span only if its trace is recorded. Otherwise nil takes its place, and no memory is allocated.
package enum Spans {
    /// The process's tracer; nil if spans are off.
    ///
    /// The tracer is read once, so the tracing system must be bootstrapped before the first span.
    private static let tracer: (any Tracer)? = {
        let tracer = InstrumentationSystem.tracer
        return tracer is NoOpTracer ? nil : tracer
    }()

    /// Whether spans can be recorded.
    package static var isOn: Bool { tracer != nil }

    /// The recorded span in which the task runs; nil without such a span.
    package static var current: TraceContext? { isOn ? InstrumentationContext.current?.trace : nil }

    /// Starts a span for work that a client or a timer has caused. The sampler decides whether it is recorded.
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
    ///   - parent: a span, possibly of another process. If it is nil or was not recorded, its child spans are not
    ///     recorded.
    ///   - start: the time at which the work began; nil for the present.
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
    /// Path and query are omitted, because they may contain content of users.
    ///
    /// - Parameter resends: the number of earlier attempts; 0 for a batch, whose mutations have different numbers.
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

    /// Returns the trace context of a client whose request is not recorded, for later spans and requests.
    ///
    /// If the client requested a recording and the sampler refused it, the gateway's later spans of the trace must not
    /// be recorded.
    package static func unrecorded(_ client: TraceContext?) -> TraceContext? {
        isOn && client?.isSampled == true ? client?.child(sampled: false) : client
    }

    /// A time of the clock that spans use.
    package struct Moment: Sendable {
        fileprivate let instant: DefaultTracerClock.Timestamp

        /// The present time; nil if spans are off.
        package static var now: Moment? { isOn ? Moment(instant: DefaultTracerClock.now) : nil }
    }
}

extension Spans {
    /// Runs an operation whose spans are children of a span. Without a span, it only runs the operation.
    ///
    /// - Parameter ends: whether the span ends with the operation. If so, an error marks it as failed.
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
