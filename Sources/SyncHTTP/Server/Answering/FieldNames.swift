import Crypto
package import HTTPTypes
import StandardWebhooks
package import SyncModel
import Synchronization

extension HTTPField.Name {
    package static let xRequestID = known("X-Request-ID")
    /// RFC 7240
    package static let prefer = known("Prefer")
    /// RFC 7240
    package static let preferenceApplied = known("Preference-Applied")
    /// WHATWG HTML, 9.2.4
    package static let lastEventID = known("Last-Event-ID")
    /// Used by nginx.
    package static let xAccelBuffering = known("X-Accel-Buffering")
    /// Selects one of the organizations in a token.
    package static let sluiceOrganization = known("X-Sluice-Organization")
    /// The reason of an operator's action.
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

/// The headers that restrict browsers' use of responses of the operations listener.
///
/// With these headers, browsers do not store responses below `/admin` and `/console`, including error responses, and do
/// not guess the types of these responses. If a response already has one of the headers, its value is kept.
package enum BrowserRules {
    /// Only content from this origin is executed, shown or requested. No page can show a page of the console in a
    /// frame.
    private static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'
        """

    /// Adds the headers to the response if the path is at or below `/console` or `/admin`.
    ///
    /// - Parameter path: the path of the request.
    static func mark(_ answer: inout Answer, at path: String) {
        let isConsole = isPath(path, under: "/console")
        guard isConsole || isPath(path, under: "/admin") else { return }
        if answer.headers[.cacheControl] == nil { answer.headers[.cacheControl] = "no-store" }
        if answer.headers[.xContentTypeOptions] == nil { answer.headers[.xContentTypeOptions] = "nosniff" }
        if isConsole { answer.headers[.contentSecurityPolicy] = policy }
    }

    private static func isPath(_ path: String, under root: String) -> Bool {
        path == root || path.hasPrefix(root + "/")
    }
}

/// The strong `ETag` of a body (RFC 9110, 8.8.3). Two bodies have the same tag only if their bytes are the same.
package struct EntityTag: Sendable {
    /// The tag with its quotes.
    package let text: String

    package init(of body: [UInt8]) {
        let digits = Array("0123456789abcdef".utf8)
        // half of the digest is sufficient to distinguish bodies
        let digest = SHA256.hash(data: body).prefix(16)
        let name = digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        text = "\"\(String(decoding: name, as: UTF8.self))\""
    }

    /// Whether an `If-None-Match` field contains the tag, or is `*`.
    ///
    /// The comparison is weak, so a tag that a cache has marked as weak also matches (RFC 9110, 13.1.2).
    package func isAmong(_ field: String?) -> Bool {
        guard let field else { return false }
        // a comma within the quotes of another server's tag splits that tag; this is harmless, because the gateway's
        // tags contain no comma
        return field.utf8.split(separator: UInt8(ascii: ",")).map(\.trimmed).contains { part in
            let name = Substring(part)
            return name == "*" || (name.hasPrefix("W/") ? name.dropFirst(2) : name) == text
        }
    }
}

/// The value of the `Date` header (RFC 9110, 5.6.7), created once a second.
package final class HTTPDate: Sendable {
    private let cached = Mutex((seconds: Int64.min, text: ""))

    package func text(at now: Timestamp) -> String {
        let seconds = now.seconds
        return cached.withLock { cached in
            if cached.seconds != seconds { cached = (seconds, Self.format(now)) }
            return cached.text
        }
    }

    /// Returns a date in the form `Sun, 06 Nov 1994 08:49:37 GMT`.
    package static func format(_ now: Timestamp) -> String {
        // 1970-01-01, day 0, was a Thursday
        let day = (now.seconds >= 0 ? now.seconds : now.seconds - 86_399) / 86_400
        let weekday = days[Int(((day + 4) % 7 + 7) % 7)]
        let text = Array(now.rfc3339.utf8)
        func part(_ range: Range<Int>) -> String { String(decoding: text[range], as: UTF8.self) }
        let month = months[(Int(part(5..<7)) ?? 1) - 1]
        return "\(weekday), \(part(8..<10)) \(month) \(part(0..<4)) \(part(11..<19)) GMT"
    }

    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
