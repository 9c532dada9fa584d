package import SyncModel
package import Tracing

/// Starts spans by the API of swift-distributed-tracing.
///
/// A span exists only while its trace is recorded: all other code passes nil on, and allocates nothing for it.
package enum Spans {
    /// The process's tracer; nil if spans are off.
    ///
    /// It is read once, so it has to be bootstrapped before the first span.
    private static let tracer: (any Tracer)? = {
        let tracer = InstrumentationSystem.tracer
        return tracer is NoOpTracer ? nil : tracer
    }()

    /// Whether spans are recorded at all.
    package static var isOn: Bool { tracer != nil }

    /// The recorded span in which the task works.
    package static var current: TraceContext? { isOn ? InstrumentationContext.current?.trace : nil }

    /// Starts a span for work that a client or a timer has caused. The sampler decides whether it is recorded.
    ///
    /// - Parameter parent: the client's span, if the client sent one.
    package static func root(_ name: String, _ kind: GatewaySpan.Kind, under parent: TraceContext? = nil)
        -> GatewaySpan?
    {
        guard let tracer else { return nil }
        return start(name, kind, under: parent, at: DefaultTracerClock.now, by: tracer)
    }

    /// Starts a span within another span.
    ///
    /// - Parameters:
    ///   - parent: a span, perhaps of another process. If it is nil or was not recorded, its children are not either.
    ///   - start: the moment at which the work began; nil for now.
    package static func child(
        _ name: String,
        _ kind: GatewaySpan.Kind = .internal,
        of parent: @autoclosure () -> TraceContext?,
        since start: Moment? = nil
    ) -> GatewaySpan? {
        guard let tracer, let parent = parent(), parent.isSampled else { return nil }
        return self.start(name, kind, under: parent, at: start?.instant ?? DefaultTracerClock.now, by: tracer)
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

    /// Returns the trace of a client whose request is not recorded, in the form in which it is passed on.
    ///
    /// If the sampler has overruled the client, the gateway's later spans of the trace must not be recorded either.
    package static func unrecorded(_ client: TraceContext?) -> TraceContext? {
        isOn && client?.isSampled == true ? client?.child(sampled: false) : client
    }

    /// A moment of the clock that spans use.
    package struct Moment: Sendable {
        fileprivate let instant: DefaultTracerClock.Timestamp

        /// The present moment; nil if spans are off.
        package static var now: Moment? { isOn ? Moment(instant: DefaultTracerClock.now) : nil }
    }
}

extension Spans {
    /// Runs an operation whose spans are children of a span. Without a span, only runs it.
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
