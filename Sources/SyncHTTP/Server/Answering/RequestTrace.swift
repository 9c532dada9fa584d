import HTTPTypes
package import Spans
package import SyncModel

/// A request's place in a trace: the client's span, and the gateway's span if the trace is recorded.
package struct RequestTrace: Sendable {
    private let client: TraceContext?
    private let span: GatewaySpan?

    /// - Parameter isTraced: whether the request can have a span.
    init(of head: HTTPRequest, _ requestID: String, isTraced: Bool) {
        client = head.headerFields[.traceparent].flatMap(TraceContext.init(traceparent:))
        span = isTraced ? Spans.root(head.method.rawValue, .server, under: client) : nil
        span?.set(.method, head.method.rawValue)
        span?.set(.requestID, requestID)
    }

    /// The trace id of log lines; nil if neither the client nor the gateway has a trace for the request.
    var traceID: String? { (span?.context ?? client)?.traceIDText }

    /// The recorded span; nil if the trace is not recorded.
    package var recorded: TraceContext? { span?.context }

    /// Runs an operation whose spans are children of the request's span.
    func within<Value>(_ operation: () async -> Value) async -> Value {
        await Spans.within(span, ends: false, operation)
    }

    /// Ends the span with the response.
    func end(_ status: HTTPResponse.Status, _ route: Route?) {
        guard let span else { return }
        if let route {
            // OpenTelemetry's form for requests with a known route
            span.rename("\(route.method.rawValue) \(route.meters.route)")
            span.set(.route, route.meters.route)
        }
        span.set(.status, status.code)
        if status.code >= 500 { span.fail("\(status.code)") }
        span.end()
    }

    /// Returns the client's W3C trace context as text. It is stored with a push's mutations if the push has no recorded
    /// span.
    ///
    /// Additions of later versions of the header are omitted.
    static func unrecorded(_ headers: HTTPFields) -> String? {
        Spans.unrecorded(headers[.traceparent].flatMap(TraceContext.init(traceparent:)))?.traceparent
    }
}

extension Spans {
    /// Starts the span of a push, which lasts until the push is committed.
    static func push(_ push: PushRequest, _ caller: Caller, within request: TraceContext?) -> GatewaySpan? {
        let span = child("push", of: request)
        span?.set(.mutations, push.entries.count)
        span?.set(organization: caller.organization.id)
        return span
    }

    /// Runs a user's endpoint in a span within the request's span.
    package static func during(
        _ name: String,
        _ endpoint: @escaping @Sendable (Exchange, Caller) async throws -> Answer
    ) -> @Sendable (Exchange, Caller) async throws -> Answer {
        { exchange, caller in
            guard let span = child(name, of: current) else { return try await endpoint(exchange, caller) }
            span.set(organization: caller.organization.id)
            return try await within(span) {
                let answer = try await endpoint(exchange, caller)
                span.set(.answerBytes, answer.body?.count ?? 0)
                return answer
            }
        }
    }
}
