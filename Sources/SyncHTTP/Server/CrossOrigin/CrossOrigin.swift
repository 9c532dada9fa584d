import HTTPTypes
import HummingbirdCore

/// Permits web pages of other origins to send requests and read responses (WHATWG Fetch, the CORS protocol).
///
/// Never with credentials, that is cookies: a token is sent in `Authorization`, which no other page can set.
package struct CrossOrigin: Sendable {
    let origins: AllowedOrigins

    /// How long a browser may cache the response to a preflight, in seconds: the maximum of any browser.
    private static let maximumAge = "7200"
    /// The fields that requests may have in addition to those that the protocol always permits.
    private static let requestFields = [
        HTTPField.Name.authorization, .contentType, .prefer, .lastEventID, .ifNoneMatch, .xRequestID,
        .sluiceOrganization, .traceparent, .tracestate,
    ].map(\.rawName).joined(separator: ", ")
    /// The fields that pages may read in addition to those that the protocol always exposes.
    private static let answerFields = [
        HTTPField.Name.xRequestID, .retryAfter, .rateLimit, .rateLimitPolicy, .preferenceApplied, .wwwAuthenticate,
        .eTag, .allow, .date,
    ].map(\.rawName).joined(separator: ", ")

    /// Responds to `OPTIONS`: to a browser's preflight with the permitted requests, to other clients with the methods
    /// of the path (RFC 9110, 9.3.7). It requires no token, because browsers do not send one here.
    ///
    /// - Parameter methods: of the path, as in `Allow`.
    func options(_ methods: String, _ exchange: Exchange) -> Answer {
        let headers = exchange.request.headers
        var answer = Answer(.noContent)
        answer.headers[.allow] = methods
        guard headers[.accessControlRequestMethod] != nil, let origin = headers[.origin], origins.allows(origin) else {
            return answer
        }
        answer.headers[.accessControlAllowMethods] = methods
        answer.headers[.accessControlAllowHeaders] = Self.requestFields
        answer.headers[.accessControlMaxAge] = Self.maximumAge
        return answer
    }

    /// Adds the headers that permit a page of an allowed origin to read the response.
    ///
    /// Refusals get them too, because a page could not distinguish one from a network failure.
    func mark(_ answer: inout Answer, for headers: HTTPFields) {
        answer.headers.append(HTTPField(name: .vary, value: HTTPField.Name.origin.rawName))
        guard let origin = headers[.origin], origins.allows(origin) else { return }
        answer.headers[.accessControlAllowOrigin] = origin
        answer.headers[.accessControlExposeHeaders] = Self.answerFields
    }
}
