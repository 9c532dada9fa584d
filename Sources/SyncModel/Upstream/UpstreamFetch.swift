public import FoundationEssentials

/// A request that only reads, and does not act for a user.
public struct UpstreamFetch: Sendable, Hashable {
    /// The value of `X-Sluice-Organization`.
    public var organization: UUID
    /// `GET`, `HEAD` or `OPTIONS`; `POST` for a batch of such requests.
    @Exact public var method: String
    /// Path and query below the base URL; begins with one slash.
    @Exact public var path: String
    /// Headers of the request, which take precedence over the upstream's headers.
    @Exact public var headers: [ByteExactString: String]
    /// The value of `If-None-Match`.
    @Exact public var etag: String?
    /// The value of `If-Modified-Since`.
    @Exact public var lastModified: String?
    /// The longest body that is read.
    public var maximumBytes: Int
    public var timeout: Duration
    /// The body, JSON; nil without a body.
    public var body: [UInt8]?

    public init(
        organization: UUID,
        method: String = "GET",
        path: String,
        headers: [ByteExactString: String] = [:],
        etag: String? = nil,
        lastModified: String? = nil,
        maximumBytes: Int,
        timeout: Duration
    ) {
        self.organization = organization
        self.method = method
        self.path = path
        self.headers = headers
        self.etag = etag
        self.lastModified = lastModified
        self.maximumBytes = maximumBytes
        self.timeout = timeout
    }

    /// Headers that control the content or the form of the response.
    ///
    /// Only the gateway sets these headers.
    private static let ownHeaders: Set<ByteExactString> = [
        "accept-encoding", "content-type", "expect", "if-match", "if-modified-since", "if-none-match", "if-range",
        "if-unmodified-since", "range",
    ]

    /// Whether only the gateway sets the header in such requests, ignoring upper and lower case.
    package static func owns(_ name: String) -> Bool { ownHeaders.contains(HeaderField.folded(name)) }

    /// Whether an operator's header is sent with such requests.
    ///
    /// False if the gateway's header of the same name is sent instead.
    public static func carries(_ name: String, _ value: String) -> Bool {
        !owns(name) && UpstreamSettings.headerProblem(name: name, value: value, isCredential: false) == nil
    }

    /// Whether 304 is a possible answer to the request.
    public var isConditional: Bool { etag != nil || lastModified != nil }
}

/// The relevant parts of the answer to an ``UpstreamFetch``.
public struct FetchedResponse: Sendable {
    public var status: Int
    /// The time of `Retry-After`, which may be a date or a number of seconds.
    public var retryAt: Timestamp?
    public var location: String?
    /// The scheme of `WWW-Authenticate` or `Proxy-Authenticate`.
    public var challenge: String?
    /// `Content-Type` without its parameters; nil if missing or invalid.
    public var contentType: String?
    /// `ETag` and `Last-Modified`, if they can be sent in later requests.
    public var etag: String?
    public var lastModified: String?
    /// The values of `Link`.
    public var links: [String]
    /// The body; nil if it is longer than the requested maximum, so that it was not read to its end.
    public var body: [UInt8]?
    /// The reservation of the body's memory, held as long as the response.
    public var room: MemoryReservation?

    public init(
        status: Int,
        retryAt: Timestamp? = nil,
        location: String? = nil,
        challenge: String? = nil,
        contentType: String? = nil,
        etag: String? = nil,
        links: [String] = [],
        body: [UInt8]? = []
    ) {
        self.status = status
        self.retryAt = retryAt
        self.location = location
        self.challenge = challenge
        self.contentType = contentType
        self.etag = etag
        self.links = links
        self.body = body
    }
}

/// The result of an ``UpstreamFetch``.
public enum FetchAnswer: Sendable {
    case response(FetchedResponse)
    /// There is no answer, or no complete answer. The value is the reason, for operators.
    case none(String)
}

/// Reads from upstreams. Each request gets one answer, which other types evaluate to decide whether to send the request
/// again.
public protocol UpstreamReader: Sendable {
    /// Sends a request that only reads.
    ///
    /// It does not throw, because each result is an answer. A cancelled task gets its answer soon.
    func fetch(_ request: UpstreamFetch, from upstream: UpstreamSettings) async -> FetchAnswer
}
