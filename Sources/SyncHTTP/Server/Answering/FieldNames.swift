import HTTPTypes

extension HTTPField.Name {
    /// `X-Request-ID`
    static let xRequestID = known("X-Request-ID")
    /// `Prefer` (RFC 7240)
    static let prefer = known("Prefer")
    /// `Preference-Applied` (RFC 7240)
    static let preferenceApplied = known("Preference-Applied")
    /// `Last-Event-ID` (WHATWG HTML, 9.2.4)
    static let lastEventID = known("Last-Event-ID")
    /// `X-Accel-Buffering`, which nginx heeds
    static let xAccelBuffering = known("X-Accel-Buffering")
    /// `traceparent` (W3C Trace Context)
    static let traceparent = known("traceparent")

    /// `RateLimit` (draft-ietf-httpapi-ratelimit-headers)
    static let rateLimit = known("RateLimit")
    /// `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers)
    static let rateLimitPolicy = known("RateLimit-Policy")

    private static func known(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("a field name that is none") }
        return name
    }
}
