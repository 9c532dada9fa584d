import FoundationEssentials

/// The relevant parts of an upstream's answer.
public struct UpstreamResponse: Sendable {
    /// HTTP status.
    public var status: Int
    /// `Retry-After`, either form (RFC 9110, 10.2.3), as a moment.
    public var retryAt: Timestamp?
    /// `Location`; of a success without one `Content-Location`.
    public var location: String?
    /// `ETag`, at most 1,000 bytes.
    public var etag: String?
    /// How the upstream, or a proxy before it, wants requests to authenticate.
    ///
    /// The scheme of `WWW-Authenticate` or `Proxy-Authenticate`.
    public var challenge: String?
    /// The body, when it is valid JSON of at most 1 MiB, without white space around it.
    public var json: [UInt8]?
    /// The body, if it is JSON within the same limit that cannot be stored.
    ///
    /// PostgreSQL cannot hold it, or a member is duplicate (``JSONDefect``). It is only usable for reading an id.
    public var unkeptJSON: [UInt8]?
    /// Why there is no JSON; nil where there is, and for an empty body.
    public var unusableBody: UnusableBody?
    /// Whether the answer broke off, or was late; the body may still be complete.
    ///
    /// For a status other than a success this is no answer at all (``UpstreamAnswer/unknown(_:)``).
    public var isCutOff: Bool
    /// Whether the response has several different `Location` headers, so that none of them counts.
    public var hasSeveralLocations = false
    /// Whether this is the answer to a batch as a whole, and not that to a part.
    public var isOfBatch = false
    /// The room that the body takes, held until the outcome is written.
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

/// Answers that may be caused by the operator or by the mutation (product rule 11).
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

    /// The target of a redirect, or how the upstream wants requests to authenticate.
    ///
    /// For operators and users. Nil for other responses, and for those that do not contain it.
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

    /// A stored text about an answer, without the address that a redirect names.
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

    /// Whether a text may be the scheme of a challenge, and can be quoted.
    public static func isScheme(_ text: String) -> Bool {
        text.utf8.count <= 40 && HeaderField.isName(text)
    }
}

/// The result of a request.
public enum UpstreamAnswer: Sendable {
    case response(UpstreamResponse)
    /// Certainly not sent: there is no connection. The reason, for operators and users.
    case notSent(String)
    /// Never sent: the gateway itself refuses the request as it is, for this reason.
    ///
    /// This contains no information about the upstream.
    case refused(String)
    /// Not sent, because of the upstream's settings or this gateway, for this reason.
    ///
    /// There is no key to sign with, or the gateway shuts down. This contains no information about the request, nor
    /// about the upstream.
    case unready(String)
    /// No answer, though the request may have arrived, for this reason.
    ///
    /// It timed out, or the connection broke.
    case unknown(String)
}

/// Sends requests to upstreams.
///
/// One request, one answer: other types decide its meaning and whether to retry.
public protocol Upstream: Sendable {
    /// Sends a request.
    ///
    /// Never throws: each result is an answer. A cancelled task gets `unknown` soon.
    func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer
}

extension UpstreamResponse {
    private static let maximumETagBytes = 1_000
    private static let maximumLocationBytes = 8_192

    /// Whether a `Location` is short enough to be kept.
    public static func isLocation(_ text: String) -> Bool { text.utf8.count <= maximumLocationBytes }

    /// Whether an ETag can be sent back in `If-Match` with the same meaning.
    ///
    /// Bytes beyond ASCII (RFC 9110, obs-text) are possibly not UTF-8. `*` would match any state. `w/"1"` is not a weak
    /// tag, because `W/` must be in upper case (RFC 9110, 8.8.3), and would be sent as a strong tag. A list of two tags
    /// would match either tag. A tag without quotes is accepted, because some servers send and compare such tags.
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
