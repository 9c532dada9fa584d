package import FoundationEssentials
import JSONText
package import SyncModel
import Tracing

/// A recorded span. The caller must end it exactly once.
package final class GatewaySpan: Sendable {
    /// The span kinds of OpenTelemetry that the gateway uses.
    package enum Kind: Sendable {
        case `internal`
        /// The gateway answers a request.
        case server
        /// The gateway waits for another program.
        case client

        var kind: SpanKind {
            switch self {
            case .internal: .internal
            case .server: .server
            case .client: .client
            }
        }
    }

    /// The span's trace context, which is the parent of its child spans.
    package let context: TraceContext
    private let span: any Span

    init(_ span: any Span, at context: TraceContext) {
        self.span = span
        self.context = context
    }

    package func rename(_ name: String) { span.operationName = name }

    package func set(_ key: SpanKey, _ value: String) { span.attributes.set(key.name, value: .string(value)) }

    package func set(_ key: SpanKey, _ value: Int) { span.attributes.set(key.name, value: .int64(Int64(value))) }

    /// Sets the organization's id. The tracer exports this id only if the settings allow ids of organizations in
    /// metrics.
    package func set(organization: UUID) { set(.organization, organization.lowercased) }

    /// Marks the span as failed.
    ///
    /// - Parameter reason: a short text without user content, such as the status code or the type of the error.
    package func fail(_ reason: String) {
        set(.errorType, reason)
        span.setStatus(SpanStatus(code: .error))
    }

    package func fail(_ error: any Error) {
        fail((error as? Problem)?.code.rawValue ?? "\(type(of: error))")
    }

    /// Links the span to a related span that is not its parent, for example a job's span to the span of the commit.
    package func link(to other: TraceContext) {
        var context = InstrumentationContext.topLevel
        context.trace = other
        span.addLink(SpanLink(context: context, attributes: [:]))
    }

    /// Records the host and the port of a request's URL, without its path.
    package func set(target url: String) {
        guard let target = try? WebhookURL(url) else { return }
        set(.serverAddress, target.host)
        set(.serverPort, target.port)
    }

    package func end() { span.end() }

    /// Ends the span of a request with the status of the response.
    package func end(status: Int) {
        set(.status, status)
        if status >= 400 { fail("\(status)") }
        end()
    }

    /// Ends the span of an attempt at an upstream.
    package func end(_ answer: UpstreamAnswer) {
        switch answer {
        case .response(let response): return end(status: response.status)
        case .notSent: fail("not_sent")
        case .refused: fail("refused")
        case .unready: fail("unready")
        case .unknown: fail("no_response")
        }
        end()
    }
}

/// The names of attributes. Some are from OpenTelemetry's semantic conventions, and the others are the gateway's own.
///
/// No attribute contains user content, such as a payload, path, query or header.
package struct SpanKey: Sendable {
    package let name: String

    private init(_ name: String) {
        self.name = name
    }

    package static let method = SpanKey("http.request.method")
    package static let route = SpanKey("http.route")
    package static let status = SpanKey("http.response.status_code")
    package static let answerBytes = SpanKey("http.response.body.size")
    /// The number of earlier attempts.
    package static let resends = SpanKey("http.request.resend_count")
    package static let serverAddress = SpanKey("server.address")
    package static let serverPort = SpanKey("server.port")
    package static let database = SpanKey("db.system.name")
    package static let databaseOperation = SpanKey("db.operation.name")
    package static let batchSize = SpanKey("db.operation.batch.size")
    package static let errorType = SpanKey("error.type")

    package static let organization = SpanKey("sluice.organization.id")
    package static let requestID = SpanKey("sluice.request.id")
    /// The number of mutations in a push, in a batch to an upstream, or in a group of jobs that are committed together.
    package static let mutations = SpanKey("sluice.mutations")
    package static let mutationID = SpanKey("sluice.mutation.id")
    package static let mutationStatus = SpanKey("sluice.mutation.status")
    /// The number of the attempt.
    package static let attempt = SpanKey("sluice.mutation.attempt")
    package static let outcome = SpanKey("sluice.outcome")
    package static let step = SpanKey("sluice.lane.step")
    package static let entityType = SpanKey("sluice.entity.type")
    package static let statements = SpanKey("sluice.commit.statements")
    package static let roundTrips = SpanKey("sluice.commit.round_trips")
    package static let events = SpanKey("sluice.events")
    package static let webhookEvent = SpanKey("sluice.webhook.event")
}
