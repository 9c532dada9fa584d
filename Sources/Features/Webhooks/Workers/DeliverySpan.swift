import Spans
import SyncModel
import SyncUpstream

extension Spans {
    /// Starts the span of a delivery, a new trace: deliveries do not store the trace of the change that they report.
    static func delivery(_ delivery: WebhookDelivery, _ lease: WebhookStore.Lease) -> GatewaySpan? {
        guard let span = root("POST", .client) else { return nil }
        span.set(.method, "POST")
        span.set(target: lease.url)
        span.set(organization: lease.endpoint.organization)
        span.set(.webhookEvent, delivery.event.rawValue)
        if delivery.attemptCount > 0 { span.set(.resends, Int(delivery.attemptCount)) }
        return span
    }
}

extension GatewaySpan {
    func end(_ answer: WebhookAnswer) {
        switch answer {
        case .status(let status, _): end(status: status)
        case .none:
            fail("no_response")
            end()
        }
    }
}
