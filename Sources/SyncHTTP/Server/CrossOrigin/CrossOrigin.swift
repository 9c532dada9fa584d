import HTTPTypes
import HummingbirdCore

/// Lets web pages of other origins ask and read (WHATWG Fetch, the CORS protocol).
///
/// Never with credentials, that is cookies: a token stands in `Authorization`, where no other page can put it.
package struct CrossOrigin: Sendable {
    let origins: AllowedOrigins

    /// How long a browser may remember the answer to a preflight, in seconds: as long as any browser does.
    private static let maximumAge = "7200"
    /// What requests may carry beside what the protocol lets through by itself.
    private static let requestFields = [
        HTTPField.Name.authorization, .contentType, .prefer, .lastEventID, .ifNoneMatch, .xRequestID,
        .sluiceOrganization, .traceparent, .tracestate,
    ].map(\.rawName).joined(separator: ", ")
    /// What pages may read beside what the protocol shows by itself.
    private static let answerFields = [
        HTTPField.Name.xRequestID, .retryAfter, .rateLimit, .rateLimitPolicy, .preferenceApplied, .wwwAuthenticate,
        .eTag, .allow, .date,
    ].map(\.rawName).joined(separator: ", ")

    /// Answers `OPTIONS`: a browser's preflight with what a request may be, anybody else with the methods there are (RFC
    /// 9110, 9.3.7). Without a token, which browsers do not send here.
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

    /// Puts on an answer what lets a page of an allowed origin read it: on refusals too, or a page could not tell one
    /// from a network that is down.
    func mark(_ answer: inout Answer, for headers: HTTPFields) {
        answer.headers.append(HTTPField(name: .vary, value: HTTPField.Name.origin.rawName))
        guard let origin = headers[.origin], origins.allows(origin) else { return }
        answer.headers[.accessControlAllowOrigin] = origin
        answer.headers[.accessControlExposeHeaders] = Self.answerFields
    }
}
