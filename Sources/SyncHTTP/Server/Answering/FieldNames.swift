import HTTPTypes
import StandardWebhooks

extension HTTPField.Name {
    static let xRequestID = known("X-Request-ID")
    /// RFC 7240
    static let prefer = known("Prefer")
    /// RFC 7240
    static let preferenceApplied = known("Preference-Applied")
    /// WHATWG HTML, 9.2.4
    static let lastEventID = known("Last-Event-ID")
    /// Heeded by nginx.
    static let xAccelBuffering = known("X-Accel-Buffering")
    /// Which of the organizations that a token names is meant.
    static let sluiceOrganization = known("X-Sluice-Organization")
    /// Why an operator does something.
    static let sluiceReason = known("Sluice-Reason")
    /// W3C Trace Context
    static let traceparent = known("traceparent")
    /// W3C Trace Context
    static let tracestate = known("tracestate")

    /// W3C Fetch Metadata
    static let secFetchSite = known("Sec-Fetch-Site")
    /// Set by proxies that end TLS.
    static let xForwardedProto = known("X-Forwarded-Proto")
    /// W3C Referrer Policy
    static let referrerPolicy = known("Referrer-Policy")
    /// WHATWG HTML, 7.1.3
    static let crossOriginOpenerPolicy = known("Cross-Origin-Opener-Policy")

    /// draft-ietf-httpapi-ratelimit-headers
    static let rateLimit = known("RateLimit")
    /// draft-ietf-httpapi-ratelimit-headers
    static let rateLimitPolicy = known("RateLimit-Policy")

    // Standard Webhooks
    static let webhookID = known(WebhookHeader.id)
    static let webhookTimestamp = known(WebhookHeader.timestamp)
    static let webhookSignature = known(WebhookHeader.signature)

    private static func known(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("a field name that is none") }
        return name
    }
}
