public import JSONText

/// A problem of a request or an entry, as defined by RFC 9457.
///
/// A problem does not contain SQL, stack traces or other users' data.
public struct Problem: Error, Sendable, Hashable {
    public var code: ProblemCode
    /// The description of the error, which contains nothing that the caller must not see.
    public var detail: String
    /// The errors with their places, at most ``ErrorBounds/perProblem``. Empty if the problem concerns no place.
    public var errors: [ProblemDetail]
    /// The number of further errors that are not in ``errors``.
    public var omittedErrors = 0
    /// The watermark that the server has stored. Set only for `sequence_gap`.
    public var expected: Int64?
    /// The path of the request with which the client starts again. Set only for `cursor_expired`.
    public var snapshot: String?
    /// The entity with which the mutation is in conflict, as JSON; nil if the caller must not see the entity.
    public var current: [UInt8]?
    /// Whether ``current`` is stored without its document.
    ///
    /// If several mutations of a push are in conflict about the same large document, only the first of these mutations
    /// stores the document.
    public var isCurrentOmitted = false
    /// The id of the entity with which a create is in conflict; nil if the upstream's answer does not identify the
    /// entity.
    public var existingID: ServerID?
    /// The number of seconds after which to retry, for the `Retry-After` header.
    public var retryAfter: Int?
    /// The state of the exhausted quota, for the `RateLimit` header. Set only for `rate_limited`.
    public var quotaStatus: QuotaStatus?

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
    /// Writes the problem. The `requestID` is nil for stored problems.
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
        if let existingID { writer.member("existing_id", existingID) }
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
    /// The problem of a device that exceeds the limit of devices for its user.
    ///
    /// - Parameter pointer: the JSON Pointer to the device's id.
    public static func oneDeviceTooMany(limit: Int, pointer: String = "/device_id") -> Problem {
        let detail = "the user already has \(limit) devices, the maximum"
        return Problem(.validationFailed, pointer: pointer, rule: Rule.deviceLimit, detail)
    }

    /// The problem of a request that needs a feature which a running gateway of an older version lacks. The older
    /// gateway would undo the feature's effects.
    ///
    /// A client need not repeat the request, because an operator must first update the older gateway.
    public static func oldGateway(without feature: String, pointer: String = "", rule: String) -> Problem {
        let detail =
            "a gateway of an older version without complete support for \(feature) is running: update all gateways first"
        return Problem(.validationFailed, pointer: pointer, rule: rule, detail)
    }

    /// The problem of a client id without a given type, if entities of several types have this client id.
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
    /// The JSON Pointer into the request body (RFC 6901). A long pointer is truncated and ends with "…"
    /// (``ErrorBounds``).
    @Exact public var pointer: String
    /// The broken rule. A rule that is in docs/spec has the same name as there.
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
    /// The problem if the database cannot be reached. The client should retry in two seconds.
    public static var storeUnavailable: Problem {
        var problem = Problem(.storeUnavailable, "the database cannot be reached; no data was lost, try again")
        problem.retryAfter = 2
        return problem
    }

    /// The problem if the gateway or the database is overloaded, but the database can be reached.
    ///
    /// - Parameter detail: a description of the overload. The text "; try again" is appended.
    public static func overloaded(_ detail: String) -> Problem {
        var problem = Problem(.overloaded, detail + "; try again")
        problem.retryAfter = 1
        return problem
    }
}

extension Problem {
    /// Creates the problem of a body that is JSON, but cannot be stored or is ambiguous.
    public init(_ defect: JSONDefect) {
        let rule = defect.kind == .duplicateMember ? Rule.duplicateMember : Rule.memberType
        self.init(.invalidRequest, pointer: defect.pointer, rule: rule, defect.explanation)
    }
}

extension Problem {
    /// The problem `invalid_request` for an invalid parameter.
    public static func invalidParameter(_ detail: String, pointer: String = "") -> Problem {
        Problem(.invalidRequest, pointer: pointer, rule: "parameter_invalid", detail)
    }
}

/// The bounds on the errors in a problem, and on the names that the errors quote.
///
/// Without these bounds an answer could be many times as large as its request, because errors quote members of the
/// request.
public enum ErrorBounds {
    /// The maximum number of errors in a problem about one entry.
    public static let perEntry = 20
    /// The maximum number of errors in a problem about a body of settings.
    public static let perBody = 100
    /// The maximum number of errors for one request in total.
    ///
    /// After this limit is reached, a refused entry lists only its first error.
    ///
    /// The limit applies to a push, a batch of events, and the items of a message or a page.
    public static let perRequest = 500
    /// The maximum number of errors in any problem.
    public static let perProblem = 1_000
    /// The maximum number of bytes of an error's pointer.
    public static let pointer = 512
    /// The maximum number of bytes of an error's description.
    public static let detail = 1_024
    /// The maximum number of bytes of a problem's description.
    public static let problemDetail = 4_096

    /// The mark at the end of a truncated text.
    static let mark = "…"

    /// The text or, if it is longer than `limit` bytes, its beginning followed by a mark.
    public static func cut(_ text: String, to limit: Int) -> String {
        guard text.utf8.count > limit else { return text }
        var bytes = Array(text.utf8.prefix(limit - mark.utf8.count))
        // the text must not end within the bytes of a character
        while let last = bytes.last, last & 0xC0 == 0x80 { bytes.removeLast() }
        if let last = bytes.last, last >= 0xC0 { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self) + mark
    }
}

/// The number of errors that the entries of one request may still list (``ErrorBounds/perRequest``).
package struct ErrorAllowance {
    private var listed = 0

    package init() {}

    /// The maximum number of errors that the next entry lists. Each entry lists at least its first error.
    package var nextEntry: Int { max(1, min(ErrorBounds.perEntry, ErrorBounds.perRequest - listed)) }

    /// Counts the errors that an entry lists.
    package mutating func count(_ errors: Int) { listed += errors }
}

/// The errors of one entry of a request. The first errors are listed, and the others are counted.
struct EntryErrors {
    private(set) var listed: [ProblemDetail] = []
    private var omitted = 0
    private let limit: Int

    /// - Parameter limit: the maximum number of listed errors.
    init(limit: Int) { self.limit = limit }

    var isEmpty: Bool { listed.isEmpty && omitted == 0 }
    /// Whether further errors are only counted.
    var isFull: Bool { listed.count >= limit }

    /// Adds an error. If the list is full, the error is only counted, and its text is not created.
    mutating func append(_ error: @autoclosure () -> ProblemDetail) {
        if isFull { omitted += 1 } else { listed.append(error()) }
    }

    /// Returns the problem `validation_failed` with the listed errors.
    ///
    /// - Parameter fallback: the detail if there are no errors.
    func problem(or fallback: String) -> Problem {
        let others = listed.count + omitted - 1
        let more = others > 0 ? " (and \(others) more)" : ""
        var problem = Problem(.validationFailed, (listed.first?.detail ?? fallback) + more, errors: listed)
        problem.omittedErrors = omitted
        return problem
    }
}
