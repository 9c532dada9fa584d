import FoundationEssentials

/// The relevant parts of an upstream's answer.
public struct UpstreamResponse: Sendable {
    /// The HTTP status.
    public var status: Int
    /// The time in `Retry-After`, which may be given as a date or as a number of seconds (RFC 9110, 10.2.3).
    public var retryAt: Timestamp?
    /// The `Location`. In a success without this header, the `Content-Location`.
    public var location: String?
    /// The `ETag`, of at most 1,000 bytes.
    public var etag: String?
    /// The authentication that the upstream, or a proxy in front of it, requests.
    ///
    /// This is the scheme in `WWW-Authenticate` or `Proxy-Authenticate`.
    public var challenge: String?
    /// The maximum size of the body of an answer to one mutation, in bytes.
    public static let maximumBodyBytes = 1_048_576

    /// The body without white space around it, if the body is valid JSON and not too long; otherwise nil.
    public var json: [UInt8]?
    /// The body, if it is JSON that is not too long and cannot be stored; otherwise nil.
    ///
    /// Such a body contains a value that PostgreSQL cannot store, or a duplicate member (``JSONDefect``). The gateway
    /// uses the body only to read the entity from it.
    public var unkeptJSON: [UInt8]?
    /// The reason why there is no JSON; nil if there is JSON, or if the body is empty.
    public var unusableBody: UnusableBody?
    /// Whether the connection ended or the time expired before the end of the answer. The JSON that had arrived may
    /// nevertheless be whole.
    ///
    /// If the status is not a success, such a response is treated as a missing answer (``UpstreamAnswer/unknown(_:)``).
    public var isCutOff: Bool
    /// The reason why a received `Location` is not used.
    public var unusedLocation: UnusedLocation?
    /// Whether the body is a problem document (RFC 9457), according to `Content-Type`.
    ///
    /// Such a body describes an error, so it is never an entity, even if it has an `id`.
    public var isProblem = false
    /// Whether this is the answer to a batch as a whole, and not the answer to one of its parts.
    public var isOfBatch = false
    /// The reservation of memory for the body. The reservation lasts until the outcome is written.
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
    /// The body that an outcome stores. If the JSON cannot be stored, the body is `null`.
    var storedBody: [UInt8]? { json ?? (unkeptJSON == nil ? nil : Array("null".utf8)) }
}

/// Answers that do not show whether the operator's configuration or the mutation is the cause (product rule 11).
extension UpstreamAnswer {
    public var mayNeedOperator: Bool {
        if case .response(let response) = self { response.mayNeedOperator } else { false }
    }
}

extension UpstreamResponse {
    /// The maximum length of a quoted `Location`, in characters.
    private static let longestPlace = 200
    /// The text before a quoted `Location`.
    private static let placeMark = "Location: "

    var mayNeedOperator: Bool {
        switch status {
        case 401, 407, 300...399: true
        default: false
        }
    }

    /// The target of a redirect, or the authentication that the upstream requests.
    ///
    /// The text is for operators and users. Nil for other responses, and for responses without this information.
    package var pointer: String? {
        switch status {
        case 300...399: Self.place(location).map { Self.placeMark + $0 }
        case 401, 407: challenge.map { "it asks for \($0)" }
        default: nil
        }
    }

    /// A `Location` without the parts that may be secret, which are the user, the query and the fragment.
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
        // a quoted `Location` contains no space
        let end = words[mark.upperBound...].firstIndex(of: " ") ?? words.endIndex
        let comma = words[..<end].hasSuffix("),") ? "," : ""
        return "\(words[..<mark.lowerBound])(Location withheld)\(comma)\(words[end...])"
    }

    /// The words that introduce the quoted beginning of the body, after a sentence about the answer.
    static let excerptMark = " The body begins with: "

    /// The words that introduce the upstream's quoted message, after a sentence about the answer.
    static let messageMark = ". The upstream's message: "

    /// The sentence about an answer, without the quoted beginning of the body and without the upstream's quoted
    /// message.
    static func withoutExcerpt(_ words: String) -> String {
        if let mark = words.range(of: messageMark) {
            return words[..<mark.lowerBound] + " (the upstream's message withheld)"
        }
        guard let mark = words.range(of: excerptMark) else { return words }
        return words[..<mark.lowerBound] + " (beginning of the body withheld)"
    }

    /// Whether a text can be the scheme of a challenge. Only such a text is quoted in error messages.
    public static func isScheme(_ text: String) -> Bool {
        text.utf8.count <= 40 && HeaderField.isName(text)
    }
}

/// The reason why the `Location` of an answer is not used.
public enum UnusedLocation: Sendable {
    /// Several headers have different values.
    case several
    /// The value is longer than 8,192 bytes.
    case tooLong
}

/// The result of a request.
public enum UpstreamAnswer: Sendable {
    case response(UpstreamResponse)
    /// The request was certainly not sent, because there was no connection.
    ///
    /// The associated value is the reason, for operators and users.
    case notSent(String)
    /// The request was never sent, because the gateway refuses it. The associated value is the reason.
    ///
    /// The refusal contains no information about the upstream.
    case refused(String)
    /// The request was not sent because of the upstream's settings or the state of this gateway.
    ///
    /// The associated value is the reason, such as a missing signing key or a shutdown. This result contains no
    /// information about the request or the upstream.
    case unready(String)
    /// There was no answer, but the request may have arrived. The associated value is the reason.
    ///
    /// The reason is, for example, that the request timed out or that the connection ended.
    case unknown(String)
}

/// Sends requests to upstreams.
///
/// Each request gets one answer. Other types decide the meaning of the answer, and whether to retry the request.
public protocol Upstream: Sendable {
    /// Sends a request.
    ///
    /// The method does not throw, because each result is an answer. After the task is cancelled, the method soon
    /// returns `unknown`.
    func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer
}

extension UpstreamResponse {
    private static let maximumETagBytes = 1_000
    static let maximumLocationBytes = 8_192

    /// Whether a `Content-Type` is the type of problem documents (RFC 9457).
    public static func isProblemType(_ contentType: String) -> Bool {
        HeaderField.trimmed(String(contentType.before(";"))).lowercased().utf8
            .elementsEqual("application/problem+json".utf8)
    }

    /// Keeps the `Location`, or the reason why it is not used.
    ///
    /// - Parameter values: the values of the header, in their order.
    public mutating func keepLocation(_ values: [String]) {
        guard let first = values.first else { return }
        if values.dropFirst().contains(where: { Array($0.utf8) != Array(first.utf8) }) {
            unusedLocation = .several
        } else if first.utf8.count > Self.maximumLocationBytes {
            unusedLocation = .tooLong
        } else {
            location = first
        }
    }

    /// Keeps the `ETag` if it can be sent back in `If-Match`. If the header has different values, none is kept, because
    /// they do not identify one state.
    ///
    /// - Parameter values: the values of the header, in their order.
    public mutating func keepETag(_ values: [String]) {
        guard let first = values.first, Self.isTag(first), values.allSatisfy({ Array($0.utf8) == Array(first.utf8) })
        else { return }
        etag = first
    }

    /// Whether an ETag can be sent back in `If-Match` with the same meaning.
    ///
    /// Five kinds of texts are refused:
    /// - Texts with bytes beyond ASCII (RFC 9110, obs-text), because they may not be UTF-8.
    /// - Texts with control characters, including tabs, which no entity tag contains (RFC 9110, 8.8.3).
    /// - `*`, because it would match any state.
    /// - `w/"1"`, because it would be sent as a strong tag. In a weak tag, `W/` must be in upper case (RFC 9110,
    ///   8.8.3).
    /// - A list of two tags, because it would match either tag.
    ///
    /// A tag without quotes is accepted, because some servers send and compare such tags.
    public static func isTag(_ text: String) -> Bool {
        guard (1...maximumETagBytes).contains(text.utf8.count), UpstreamRequest.canCarry(text),
            text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x80 }), !text.hasPrefix("w/")
        else { return false }
        var tag = text.utf8[...]
        if text.hasPrefix("W/") { tag = tag.dropFirst(2) }
        let quote = UInt8(ascii: "\"")
        guard tag.contains(quote) else { return !tag.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: ",") } }
        return tag.count >= 2 && tag.first == quote && tag.last == quote
            && !tag.dropFirst().dropLast().contains(quote)
    }
}
