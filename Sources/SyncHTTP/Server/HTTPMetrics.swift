import HTTPTypes
import Logging
import Metrics
import SyncModel
import Synchronization
package import Telemetry

/// The metrics of this module.
package enum HTTPMetrics {
    static let requests = "sluice_http_requests_total"
    static let duration = "sluice_http_request_duration_seconds"
    static let limited = "sluice_requests_limited_total"
    static let inFlight = "sluice_http_requests_in_flight"
    package static let pushes = "sluice_pushes_total"
    static let pushMutations = "sluice_push_mutations"
    package static let mutations = "sluice_mutations_total"
    static let settled = "sluice_mutations_settled_total"
    static let eventStreams = "sluice_event_streams"
    package static let operatorStreams = "sluice_operator_event_streams"
    static let eventStreamEnds = "sluice_event_streams_ended_total"
    static let heldEventBytes = "sluice_event_stream_held_bytes"
    static let heldBodyBytes = "sluice_http_held_body_bytes"
    static let heldUnverifiedBytes = "sluice_http_unverified_body_bytes"
    static let heldAnswerBytes = "sluice_http_held_answer_bytes"
    static let waits = "sluice_http_waits"
    static let overloads = "sluice_http_overloads_total"
    static let cutOff = "sluice_http_clients_cut_off_total"
    static let ready = "sluice_ready"

    private static let counters = [
        (requests, "Requests, by route, method and status class."),
        (limited, "Requests that received 429, by exhausted quota: the organization's or the user's."),
        (pushes, "Pushes: accepted (each entry evaluated), refused (as a whole) or failed with an internal error."),
        (mutations, "Pushed mutations, by the status in the response."),
        (
            settled,
            "Mutations that a user or an operator retried, discarded (with dependants) or resolved, by action."
        ),
        (
            eventStreamEnds,
            "Event streams that ended, by reason: closed (by either side), expired, refused, slow, superseded or"
                + " failed."
        ),
        (
            overloads,
            "Requests that received 503 because the organization used its share of a budget: bodies, decoding, "
                + "answers, waits or listeners; or before authentication: unverified, verifying."
        ),
        (cutOff, "Connections closed because the client was too slow to read a response or to send a body."),
    ]

    private static let gauges = [
        (inFlight, "Requests in progress on the public server."),
        (eventStreams, "Connected event streams."),
        (operatorStreams, "Connected streams of /admin/events."),
        (heldEventBytes, "Bytes of events buffered for slow listeners."),
        (ready, "1 if this replica can serve requests, as /readyz reports; otherwise 0."),
        (heldBodyBytes, "Bytes of request bodies in memory."),
        (heldUnverifiedBytes, "Bytes of request bodies in memory whose senders are not authenticated yet."),
        (heldAnswerBytes, "Bytes of responses in memory, until clients have read them."),
        (waits, "Waiting requests (long polls)."),
    ]

    /// Describes the metrics in the registry. Call it before a server is created.
    package static func describe(in registry: PrometheusRegistry) {
        for (name, help) in counters { registry.describe(name, kind: .counter, help: help) }
        for (name, help) in gauges { registry.describe(name, kind: .gauge, help: help) }
        registry.describe(
            duration,
            kind: .histogram,
            help:
                "Time from a request's head to its response, by route and method, including requested waits.",
            // the buckets reach up to the longest `wait`
            buckets: MetricBuckets.seconds + [30, 60]
        )
        registry.describe(
            pushMutations,
            kind: .histogram,
            help: "Mutations in a push.",
            buckets: MetricBuckets.counts
        )
    }
}

/// The metrics of one route, created once.
///
/// The labels, which have few values, are the route's template, its method and the class of the status.
package struct RouteMeters: Sendable {
    let route: String
    private let succeeded: Counter
    private let redirected: Counter
    private let refused: Counter
    private let failed: Counter
    private let duration: Metrics.Timer

    init(route: String, method: String) {
        func counter(_ status: String) -> Counter {
            Counter(
                label: HTTPMetrics.requests,
                dimensions: [("route", route), ("method", method), ("status", status)]
            )
        }
        self.route = route
        succeeded = counter("2xx")
        redirected = counter("3xx")
        refused = counter("4xx")
        failed = counter("5xx")
        duration = Metrics.Timer(label: HTTPMetrics.duration, dimensions: [("route", route), ("method", method)])
    }

    func record(_ status: HTTPResponse.Status, nanoseconds: Int64) {
        switch status.code {
        case ..<300: succeeded.increment()
        case ..<400: redirected.increment()
        case ..<500: refused.increment()
        default: failed.increment()
        }
        duration.recordNanoseconds(nanoseconds)
    }
}

/// The log line of a request. The line has the same ids as other lines of the request, and the route's template, but
/// never the path.
struct LogLine {
    let route: Route?
    let answer: Answer
    /// The duration in nanoseconds.
    let elapsed: Int64

    func metadata(failure: (any Error)?) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKeys.method: .string(route?.method.rawValue ?? "any"),
            LogKeys.route: .string(route?.meters.route ?? "unmatched"),
            LogKeys.status: .stringConvertible(answer.status.code),
            LogKeys.durationMS: .stringConvertible(Double(elapsed / 1_000) / 1_000),
        ]
        if let failure {
            let refusal = Refusal(of: failure)
            metadata[LogKeys.code] = .string(refusal.problem.code.rawValue)
            // a problem's detail may contain texts of the client, so only unexpected errors are logged in full
            if refusal.problem.code == .internalError {
                metadata[LogKeys.error] = .string(String(reflecting: refusal.cause ?? failure))
            }
        }
        return metadata
    }
}

/// Recognizes the first call within each second.
final class OncePerSecond: Sendable {
    private let last = Atomic<Int64>(.min)

    func isFirst(at second: Int64) -> Bool {
        last.exchange(second, ordering: .relaxed) != second
    }
}
