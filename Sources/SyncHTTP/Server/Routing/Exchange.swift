package import FoundationEssentials
package import HTTPTypes
package import HummingbirdCore
import JSONText
package import NIOCore
package import SyncModel

/// A request with its context, as endpoints receive it.
package struct Exchange: Sendable {
    package let request: Request
    package let requestID: String
    /// The values of the placeholders in the route's template, in order.
    package let parameters: [Substring]
    package let channel: any Channel

    /// The memory reservation of the response.
    package let hold: ResponseMemoryLease
    /// The budgets that all requests share.
    package let budgets: Budgets
    /// The caller's user, after authentication.
    package var user = LaneKey.unknown
    /// The operator's token of the request, after authentication.
    package var operatorToken: OperatorToken?
    /// The end of the operator's session, in seconds since 1970; nil if the session does not end.
    package var operatorUntil: Int64?
    /// Records the operator's accesses to user content.
    package var audit: OperatorAudit?
    /// Collects, for the audit log, the details of the operator's action.
    package var act: AuditRecorder?

    /// Throws an error if the caller is no longer served. Long waits call it at intervals.
    package var isStillServed: @Sendable () async throws -> Void = {}
    /// The interval at which waits call ``isStillServed``.
    package var checkInterval: Duration = .seconds(2)

    package var head: HTTPRequest { request.head }
    package var headers: HTTPFields { request.headers }

    /// Returns a parameter of the path as a UUID. If the parameter is not a UUID, the response is 404.
    package func uuid(at index: Int) throws(Refusal) -> UUID {
        guard let uuid = UUID(text: parameters[index].utf8) else { throw .notFound }
        return uuid
    }
}

/// The request's id in responses, logs and problems.
package enum RequestID {
    package static let maximumLength = 128
    private static let ids = UUIDv4Generator()

    /// Returns the client's `X-Request-ID` if it is valid, otherwise a new UUID.
    package static func of(_ headers: HTTPFields) -> String {
        if let given = headers[.xRequestID], isSane(given) { return given }
        return make()
    }

    package static func make() -> String { ids.make().lowercased }

    /// Whether a text has 1 to 128 letters, digits, dots, underscores and hyphens. None of these characters has a
    /// meaning in logs or headers.
    package static func isSane(_ text: String) -> Bool {
        let bytes = text.utf8
        return !bytes.isEmpty && bytes.count <= maximumLength && bytes.allSatisfy(isAllowed)
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"): true
        default: false
        }
    }
}

/// Whether a client accepts a media type (RFC 9110, 12.5.1).
package enum Accept {
    /// Whether the `Accept` fields allow a media type. The most specific range decides. Without the field, all media
    /// types are allowed.
    package static func allows(_ mediaType: String, _ headers: HTTPFields) -> Bool {
        guard let value = headers[.accept] else { return true }
        return allows(mediaType, value)
    }

    package static func allows(_ mediaType: String, _ value: String) -> Bool {
        if value == mediaType || value == "*/*" { return true }
        var best: (specificity: Int, allowed: Bool)?
        var isEmpty = true
        for range in value.utf8.split(separator: UInt8(ascii: ",")) {
            let parts = range.split(separator: UInt8(ascii: ";")).map { $0.trimmed.lowercased }
            guard let media = parts.first, !media.isEmpty else { continue }
            isEmpty = false
            guard let specificity = specificity(of: media, for: mediaType) else { continue }
            if specificity > best?.specificity ?? 0 {
                best = (specificity, !parts.dropFirst().contains(where: isZeroQuality))
            }
        }
        return isEmpty || best?.allowed ?? false
    }

    private static func specificity(of range: String, for mediaType: String) -> Int? {
        if range == mediaType { return 3 }
        if range == "*/*" { return 1 }
        return range.hasSuffix("/*") && mediaType.hasPrefix(range.dropLast()) ? 2 : nil
    }

    /// Whether a parameter is `q=0`, `q=0.` or `q=0.000`.
    private static func isZeroQuality(_ parameter: String) -> Bool {
        guard parameter.hasPrefix("q=0") else { return false }
        return parameter.utf8.dropFirst(3).allSatisfy { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "0") }
    }
}
