import Spans
import SyncModel

extension Spans {
    /// Starts the span of an attempt, if the mutation's trace is recorded.
    ///
    /// Path and query are left out, because they can have content of users.
    static func attempt(_ request: UpstreamRequest, _ upstream: UpstreamSettings) -> GatewaySpan? {
        guard let span = child(request.method, .client, of: request.trace) else { return nil }
        span.set(.method, request.method)
        span.set(organization: request.organization)
        if case .success(let base) = upstream.base { span.set(target: base.text) }
        return span
    }
}

extension GatewaySpan {
    /// Names the host of a request's URL, without its path.
    package func set(target url: String) {
        guard let target = try? WebhookURL(url) else { return }
        set(.serverAddress, target.host)
        set(.serverPort, target.port)
    }

    /// Ends the span of a request with the status of the response.
    package func end(status: Int) {
        set(.status, status)
        if status >= 400 { fail("\(status)") }
        end()
    }

    /// Ends the span of an attempt.
    func end(_ answer: UpstreamAnswer) {
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
