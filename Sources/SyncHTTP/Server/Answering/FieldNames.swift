package import HTTPTypes
import StandardWebhooks

extension HTTPField.Name {
    package static let xRequestID = known("X-Request-ID")
    /// RFC 7240
    package static let prefer = known("Prefer")
    /// RFC 7240
    package static let preferenceApplied = known("Preference-Applied")
    /// WHATWG HTML, 9.2.4
    package static let lastEventID = known("Last-Event-ID")
    /// Heeded by nginx.
    package static let xAccelBuffering = known("X-Accel-Buffering")
    /// Which of the organizations that a token names is meant.
    package static let sluiceOrganization = known("X-Sluice-Organization")
    /// Why an operator does something.
    package static let sluiceReason = known("Sluice-Reason")
    /// W3C Trace Context
    package static let traceparent = known("traceparent")
    /// W3C Trace Context
    package static let tracestate = known("tracestate")

    /// W3C Fetch Metadata
    package static let secFetchSite = known("Sec-Fetch-Site")
    /// Set by proxies that end TLS.
    package static let xForwardedProto = known("X-Forwarded-Proto")
    /// W3C Referrer Policy
    package static let referrerPolicy = known("Referrer-Policy")
    /// WHATWG HTML, 7.1.3
    package static let crossOriginOpenerPolicy = known("Cross-Origin-Opener-Policy")

    /// draft-ietf-httpapi-ratelimit-headers
    package static let rateLimit = known("RateLimit")
    /// draft-ietf-httpapi-ratelimit-headers
    package static let rateLimitPolicy = known("RateLimit-Policy")

    // Standard Webhooks
    package static let webhookID = known(WebhookHeader.id)
    package static let webhookTimestamp = known(WebhookHeader.timestamp)
    package static let webhookSignature = known(WebhookHeader.signature)

    private static func known(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("an invalid field name") }
        return name
    }
}
