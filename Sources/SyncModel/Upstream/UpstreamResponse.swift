import FoundationEssentials

/// The relevant parts of an upstream's answer.
public struct UpstreamResponse: Sendable {
    /// HTTP status.
    public var status: Int
    /// The time of `Retry-After`, which may be a date or a number of seconds (RFC 9110, 10.2.3).
    public var retryAt: Timestamp?
    /// `Location`, or the `Content-Location` of a success without a `Location`.
    public var location: String?
    /// `ETag`, at most 1,000 bytes.
    public var etag: String?
    /// The authentication that the upstream, or a proxy before it, requests.
    ///
    /// It is the scheme of `WWW-Authenticate` or `Proxy-Authenticate`.
    public var challenge: String?
    /// The body, if it is valid JSON of at most 1 MiB, without white space around it.
    public var json: [UInt8]?
    /// The body, if it is JSON within the same limit but cannot be stored.
    ///
    /// It contains a value that PostgreSQL cannot store, or a duplicate member (``JSONDefect``). It is only used to
    /// read an id.
    public var unkeptJSON: [UInt8]?
    /// The reason why there is no JSON; nil if there is JSON, and for an empty body.
    public var unusableBody: UnusableBody?
    /// Whether the connection ended, or the time was over, before the answer was complete. The body may be complete
    /// nevertheless.
    ///
    /// With a status other than a success, such an answer counts as no answer (``UpstreamAnswer/unknown(_:)``).
    public var isCutOff: Bool
    /// Whether the response has several different `Location` headers, so that none of them is used.
    public var hasSeveralLocations = false
    /// Whether this is the answer to a batch as a whole, and not the answer to a part.
    public var isOfBatch = false
    /// The reserved memory of the body, held until the outcome is written.
    public var room: MemoryReservation?

    public init(
        status: Int,
        retryAt: Timestamp? = nil,
        location: String? = nil,
        etag: String? = nil,
        json: [UInt8]? = nil,
        unkeptJSON: [UInt8]? = nil,
        unusableBody: UnusableBody? = nil,
        isCutOff: Bool = false
    ) {
        self.status = status
        self.retryAt = retryAt
        self.location = location
        self.etag = etag
        self.json = json
        self.unkeptJSON = unkeptJSON
        self.unusableBody = unusableBody
        self.isCutOff = isCutOff
    }
}

extension UpstreamResponse {
    /// The body that an outcome stores. It is null in place of JSON that cannot be stored.
    var storedBody: [UInt8]? { json ?? (unkeptJSON == nil ? nil : Array("null".utf8)) }
}

/// Answers whose cause may be the operator's configuration or the mutation (product rule 11).
extension UpstreamAnswer {
    public var mayNeedOperator: Bool {
        if case .response(let response) = self { response.mayNeedOperator } else { false }
    }
}

extension UpstreamResponse {
    /// The longest quotation of a `Location`, in characters.
    private static let longestPlace = 200
    /// The text before a place.
    private static let placeMark = "Location: "

    var mayNeedOperator: Bool {
        switch status {
        case 401, 407, 300...399: true
        default: false
        }
    }

    /// The target of a redirect, or the authentication that the upstream requests.
    ///
    /// For operators and users. Nil for other responses, and for responses without this information.
    package var pointer: String? {
        switch status {
        case 300...399: Self.place(location).map { Self.placeMark + $0 }
        case 401, 407: challenge.map { "it asks for \($0)" }
        default: nil
        }
    }

    /// A `Location` without parts that may be secret: user, query and fragment.
    private static func place(_ location: String?) -> String? {
        guard let location, location.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else { return nil }
        var text = location.before("?", "#")
        if let authority = text.range(of: "//") {
            let rest = text[authority.upperBound...]
            let host = rest.before("/", "\\")
            if let user = host.lastIndex(of: "@") {
                text = text[..<authority.upperBound] + rest[rest.index(after: user)...]
            }
        }
        guard !text.isEmpty else { return nil }
        return text.count > longestPlace ? text.prefix(longestPlace) + "…" : String(text)
    }

    /// A stored text about an answer, without the address of a redirect.
    static func withoutPlace(_ words: String) -> String {
        guard let mark = words.range(of: "(" + placeMark) else { return words }
        // a quoted place has no space in it
        let end = words[mark.upperBound...].firstIndex(of: " ") ?? words.endIndex
        let comma = words[..<end].hasSuffix("),") ? "," : ""
        return "\(words[..<mark.lowerBound])(Location withheld)\(comma)\(words[end...])"
    }

    /// Precedes the first bytes of an answer, at the end of a sentence about it.
    static let excerptMark = " The body begins with: "

    /// Precedes an upstream's own text at the end of a sentence about its answer.
    static let messageMark = ". The upstream's message: "

    /// A sentence about an answer without the first bytes of the answer, and without the upstream's own text.
    static func withoutExcerpt(_ words: String) -> String {
        if let mark = words.range(of: messageMark) {
            return words[..<mark.lowerBound] + " (the upstream's message withheld)"
        }
        guard let mark = words.range(of: excerptMark) else { return words }
        return words[..<mark.lowerBound] + " (beginning of the body withheld)"
    }

    /// Whether a text can be the scheme of a challenge, so that error messages may contain it.
    public static func isScheme(_ text: String) -> Bool {
        text.utf8.count <= 40 && HeaderField.isName(text)
    }
}

/// The result of a request.
public enum UpstreamAnswer: Sendable {
    case response(UpstreamResponse)
    /// The request was certainly not sent, because there is no connection. Has the reason, for operators and users.
    case notSent(String)
    /// The request was never sent, because the gateway refuses it for this reason.
    ///
    /// The refusal contains no information about the upstream.
    case refused(String)
    /// The request was not sent because of the upstream's settings or the state of this gateway.
    ///
    /// Has the reason, such as a missing signing key or a shutdown. It contains no information about the request or
    /// about the upstream.
    case unready(String)
    /// There was no answer, for this reason, but the request may have arrived.
    ///
    /// The request timed out, or the connection ended.
    case unknown(String)
}

/// Sends requests to upstreams.
///
/// Each request gets one answer. Other types decide its meaning, and whether to retry.
public protocol Upstream: Sendable {
    /// Sends a request.
    ///
    /// It does not throw, because each result is an answer. A cancelled task gets `unknown` soon.
    func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer
}

extension UpstreamResponse {
    private static let maximumETagBytes = 1_000
    private static let maximumLocationBytes = 8_192

    /// Whether a `Location` is short enough to be kept.
    public static func isLocation(_ text: String) -> Bool { text.utf8.count <= maximumLocationBytes }

    /// Whether an ETag can be sent back in `If-Match` with the same meaning.
    ///
    /// Bytes beyond ASCII (RFC 9110, obs-text) may not be UTF-8. `*` would match any state. `w/"1"` is not a weak tag,
    /// because `W/` must be in upper case (RFC 9110, 8.8.3); it would be sent as a strong tag. A list of two tags would
    /// match either tag. A tag without quotes is accepted, because some servers send and compare such tags.
    public static func isTag(_ text: String) -> Bool {
        guard text.utf8.count <= maximumETagBytes, UpstreamRequest.canCarry(text),
            text.utf8.allSatisfy({ $0 < 0x80 }), !text.hasPrefix("w/")
        else { return false }
        var tag = text.utf8[...]
        if text.hasPrefix("W/") { tag = tag.dropFirst(2) }
        let quote = UInt8(ascii: "\"")
        guard tag.contains(quote) else { return !tag.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: ",") } }
        return tag.count >= 2 && tag.first == quote && tag.last == quote
            && !tag.dropFirst().dropLast().contains(quote)
    }
}
