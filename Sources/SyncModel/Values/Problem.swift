public import JSONText

/// A problem in the sense of RFC 9457, of a request or of one entry. Reveals no internals: no SQL, no stack, no other
/// user's data.
public struct Problem: Error, Sendable, Hashable {
    public var code: ProblemCode
    /// The error in this occurrence, safe to show to the caller.
    public var detail: String
    /// The places of the errors, if there are any; at most ``ErrorBounds/perProblem``.
    public var errors: [ProblemDetail]
    /// The number of errors that were found and that ``errors`` does not list.
    public var omittedErrors = 0
    /// `sequence_gap`: the watermark that the server holds.
    public var expected: Int64?
    /// `cursor_expired`: where to start over.
    public var snapshot: String?
    /// The conflicting entity, JSON, when the caller may see it.
    public var current: [UInt8]?
    /// Whether ``current`` lacks its document.
    ///
    /// Then another mutation of the same push stores it.
    public var isCurrentOmitted = false
    /// Seconds after which to retry; becomes the `Retry-After` header.
    public var retryAfter: Int?
    /// `rate_limited`: the state of the exhausted quota, for the `RateLimit` header.
    public var standing: QuotaStatus?

    public init(_ code: ProblemCode, _ detail: String, errors: [ProblemDetail] = []) {
        self.code = code
        self.detail = ErrorBounds.cut(detail, to: ErrorBounds.problemDetail)
        self.errors = errors.count > ErrorBounds.perProblem ? Array(errors.prefix(ErrorBounds.perProblem)) : errors
        omittedErrors = errors.count - self.errors.count
    }

    /// A problem about one place in the body.
    public init(_ code: ProblemCode, pointer: String, rule: String, _ detail: String) {
        self.init(code, detail, errors: [ProblemDetail(pointer: pointer, rule: rule, detail: detail)])
    }
}

extension Problem {
    /// `requestID` belongs to answers, not to stored problems.
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
    /// - Parameter pointer: to the device's id.
    public static func oneDeviceTooMany(limit: Int, pointer: String = "/device_id") -> Problem {
        let detail = "the user already has \(limit) devices, the maximum"
        return Problem(.validationFailed, pointer: pointer, rule: Rule.deviceLimit, detail)
    }

    /// A client id of unknown type that entities of several types have.
    ///
    /// - Parameters:
    ///   - name: the client's name of the entity.
    ///   - pointer: its place in the request; nil if it is not in the request.
    static func ambiguous(_ name: String, _ types: some Sequence<String>, at pointer: String? = nil) -> Problem {
        let types = Set(types).sorted().joined(separator: "' and '")
        let detail = "\(name) exists in '\(types)'; use the server id instead"
        guard let pointer else { return Problem(.referenceAmbiguous, detail) }
        return Problem(.referenceAmbiguous, pointer: pointer, rule: Rule.entityReference, detail)
    }
}
