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
        (requests, "Requests answered, by route, method and class of the status."),
        (limited, "Requests answered 429, by whose quota was used up: the organization's or the user's."),
        (pushes, "Pushes: accepted (each entry judged), refused (as a whole) or ended by an error of ours."),
        (mutations, "Mutations pushed, by the status they were answered with."),
        (
            settled,
            "Mutations that a person or an operator retried, discarded (with dependants) or resolved, by action."
        ),
        (
            eventStreamEnds,
            "Streams of events that ended: closed (by either side), expired, refused, slow (cut off), superseded or"
                + " failed."
        ),
        (
            overloads,
            "Requests answered 503 as their organization held its part of a budget: bodies, decoding, answers, waits"
                + " or listeners; or before it was known whose they were: unverified, verifying."
        ),
        (cutOff, "Connections ended as the client was too slow: it did not take an answer, or send a body."),
    ]

    private static let gauges = [
        (inFlight, "Requests of the public server that are not answered yet."),
        (eventStreams, "Listeners to events that are connected now."),
        (operatorStreams, "Operators that look on: streams of /admin/events."),
        (heldEventBytes, "Bytes of events that wait for slow listeners now."),
        (ready, "1 if this replica can serve requests, as /readyz says; else 0."),
        (heldBodyBytes, "Bytes of request bodies that are held now."),
        (heldUnverifiedBytes, "Bytes of request bodies that are held now and whose senders are not authenticated yet."),
        (heldAnswerBytes, "Bytes of answers that are being made, or that clients have not taken yet."),
        (waits, "Requests that are held until something happens."),
    ]

    /// Describes the metrics to the registry. To be called before a server is made.
    package static func describe(in registry: PrometheusRegistry) {
        for (name, help) in counters { registry.describe(name, kind: .counter, help: help) }
        for (name, help) in gauges { registry.describe(name, kind: .gauge, help: help) }
        registry.describe(
            duration,
            kind: .histogram,
            help:
                "Time from a request's head to its answer, by route and method; what a client asked to wait counts too.",
            // as long as a wait may take
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
