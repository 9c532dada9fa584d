public import JSONText

/// A problem as defined by RFC 9457, for a request or an entry. It does not contain SQL, stack traces or other users'
/// data.
public struct Problem: Error, Sendable, Hashable {
    public var code: ProblemCode
    /// The error in this occurrence, safe to show to the caller.
    public var detail: String
    /// The places of the errors, if there are any; at most ``ErrorBounds/perProblem``.
    public var errors: [ProblemDetail]
    /// The number of further errors, which ``errors`` does not list.
    public var omittedErrors = 0
    /// For `sequence_gap`: the watermark that the server has stored.
    public var expected: Int64?
    /// For `cursor_expired`: the path at which the client starts again.
    public var snapshot: String?
    /// The conflicting entity as JSON, if the caller may see it.
    public var current: [UInt8]?
    /// Whether ``current`` lacks its document, because another mutation of the same push stores this document.
    public var isCurrentOmitted = false
    /// The number of seconds after which to retry, for the `Retry-After` header.
    public var retryAfter: Int?
    /// For `rate_limited`: the state of the exhausted quota, for the `RateLimit` header.
    public var standing: QuotaStatus?

    public init(_ code: ProblemCode, _ detail: String, errors: [ProblemDetail] = []) {
        self.code = code
        self.detail = ErrorBounds.cut(detail, to: ErrorBounds.problemDetail)
        self.errors = errors.count > ErrorBounds.perProblem ? Array(errors.prefix(ErrorBounds.perProblem)) : errors
        omittedErrors = errors.count - self.errors.count
    }

    /// Creates a problem about one place in the body.
    public init(_ code: ProblemCode, pointer: String, rule: String, _ detail: String) {
        self.init(code, detail, errors: [ProblemDetail(pointer: pointer, rule: rule, detail: detail)])
    }
}

extension Problem {
    /// Writes the problem. `requestID` is nil for stored problems.
    public func write(to writer: inout JSONWriter, requestID: String? = nil, status: Int? = nil) {
        writer.beginObject()
        writer.member("type", "urn:sluice:problem:" + code.rawValue)
        writer.member("title", code.title)
        writer.member("status", Int64(status ?? code.status))
        writer.member("code", code.rawValue)
        writer.member("detail", detail)
        if let requestID { writer.member("request_id", requestID) }
        if let expected { writer.member("expected", expected) }
        if let snapshot { writer.member("snapshot", snapshot) }
        if let current {
            writer.name("current")
            writer.raw(current)
        }
        if isCurrentOmitted { writer.member("current_omitted", true) }
        if !errors.isEmpty {
            writer.name("errors")
            writer.beginArray()
            for error in errors {
                writer.beginObject()
                writer.member("pointer", error.pointer)
                writer.member("rule", error.rule)
                writer.member("detail", error.detail)
                writer.endObject()
            }
            writer.endArray()
        }
        if omittedErrors > 0 { writer.member("errors_omitted", omittedErrors) }
        writer.endObject()
    }

    public var json: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}

extension Problem {
    /// The problem of a device beyond its user's limit.
    ///
    /// - Parameter pointer: the pointer to the device's id.
    public static func oneDeviceTooMany(limit: Int, pointer: String = "/device_id") -> Problem {
        let detail = "the user already has \(limit) devices, the maximum"
        return Problem(.validationFailed, pointer: pointer, rule: Rule.deviceLimit, detail)
    }

    /// The problem while a gateway of an older version runs that does not have a feature and would undo its effects.
    ///
    /// Repeating the request does not help, because an operator must first update that gateway.
    public static func oldGateway(without feature: String, pointer: String = "", rule: String) -> Problem {
        let detail =
            "a gateway of an older version without support for \(feature) is running: update all gateways first"
        return Problem(.validationFailed, pointer: pointer, rule: rule, detail)
    }

    /// The problem of a client id that entities of several types have, and whose type is not given.
    ///
    /// - Parameters:
    ///   - name: the client's id of the entity, as a text.
    ///   - pointer: the JSON Pointer to the id in the request; nil if the id is not in the request.
    static func ambiguous(_ name: String, _ types: some Sequence<String>, at pointer: String? = nil) -> Problem {
        let types = Set(types).sorted().joined(separator: "' and '")
        let detail = "\(name) exists in '\(types)'; use the server id instead"
        guard let pointer else { return Problem(.referenceAmbiguous, detail) }
        return Problem(.referenceAmbiguous, pointer: pointer, rule: Rule.entityReference, detail)
    }
}

/// One error, and its place.
public struct ProblemDetail: Sendable, Hashable {
    /// The RFC 6901 pointer into the request body. A long pointer is truncated and ends with "…" (``ErrorBounds``).
    @Exact public var pointer: String
    /// The broken rule. If it is in docs/spec, this is its name there.
    @Exact public var rule: String
    /// The error, and how to fix it.
    public var detail: String

    public init(pointer: String, rule: String, detail: String) {
        self.pointer = ErrorBounds.cut(pointer, to: ErrorBounds.pointer)
        self.rule = rule
        self.detail = ErrorBounds.cut(detail, to: ErrorBounds.detail)
    }
}

/// Problems of the database.
extension Problem {
    /// The database cannot be reached. The client should retry in two seconds.
    public static var storeUnavailable: Problem {
        var problem = Problem(.storeUnavailable, "the database cannot be reached; no data was lost, try again")
        problem.retryAfter = 2
        return problem
    }

    /// The gateway or the database is overloaded. The database can be reached.
    ///
    /// - Parameter detail: the overloaded part; "; try again" is appended.
    public static func overloaded(_ detail: String) -> Problem {
        var problem = Problem(.overloaded, detail + "; try again")
        problem.retryAfter = 1
        return problem
    }
}

extension Problem {
    /// The problem of a body that is JSON, but cannot be stored or is ambiguous.
    public init(_ defect: JSONDefect) {
        let rule = defect.kind == .duplicateMember ? Rule.duplicateMember : Rule.memberType
        self.init(.invalidRequest, pointer: defect.pointer, rule: rule, defect.explanation)
    }
}

extension Problem {
    /// `invalid_request` for an invalid parameter.
    public static func invalidParameter(_ detail: String, pointer: String = "") -> Problem {
        Problem(.invalidRequest, pointer: pointer, rule: "parameter_invalid", detail)
    }
}

/// Bounds on the errors that a problem lists, and on the names that they quote.
///
/// Errors quote members of the request, so without bounds an answer could be many times as large as its request.
public enum ErrorBounds {
    /// The maximum number of errors in a problem about one entry.
    public static let perEntry = 20
    /// The maximum number of errors in a problem about a body of settings.
    public static let perBody = 100
    /// The maximum number of errors for one request in total.
    ///
    /// A refused entry beyond this limit lists only its first error.
    public static let perRequest = 500
    /// The maximum number of errors in any problem.
    public static let perProblem = 1_000
    /// The maximum number of bytes of a pointer, of a rule and of a problem's description.
    public static let pointer = 512
    public static let detail = 1_024
    public static let problemDetail = 4_096

    /// The end of a text that was cut.
    static let mark = "…"

    /// The beginning of a text that is longer than `limit` bytes, followed by a mark.
    public static func cut(_ text: String, to limit: Int) -> String {
        guard text.utf8.count > limit else { return text }
        var bytes = Array(text.utf8.prefix(limit - mark.utf8.count))
        // do not cut within a character's bytes
        while let last = bytes.last, last & 0xC0 == 0x80 { bytes.removeLast() }
        if let last = bytes.last, last >= 0xC0 { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self) + mark
    }
}
