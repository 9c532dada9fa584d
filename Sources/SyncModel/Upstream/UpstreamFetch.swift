public import FoundationEssentials

/// A request that only reads, and that is not sent for a user.
public struct UpstreamFetch: Sendable, Hashable {
    /// The value of `X-Sluice-Organization`.
    public var organization: UUID
    /// `GET`, `HEAD` or `OPTIONS`, or `POST` for a batch of such requests.
    @Exact public var method: String
    /// The path and query below the base URL, which begin with one slash.
    @Exact public var path: String
    /// The headers of the request, which take precedence over the headers in the upstream's settings.
    @Exact public var headers: [ByteExactString: String]
    /// The value of `If-None-Match`.
    @Exact public var etag: String?
    /// The value of `If-Modified-Since`.
    @Exact public var lastModified: String?
    /// The maximum size of the answer's body that is read, in bytes.
    public var maximumBytes: Int
    public var timeout: Duration
    /// The body as JSON; nil if the request has no body.
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

    /// The headers that control the content or the form of the response.
    ///
    /// Only the gateway sets these headers.
    private static let ownHeaders: Set<ByteExactString> = [
        "accept-encoding", "content-type", "expect", "if-match", "if-modified-since", "if-none-match", "if-range",
        "if-unmodified-since", "range",
    ]

    /// Whether only the gateway sets the header in such requests, in any spelling of the name.
    package static func owns(_ name: String) -> Bool { ownHeaders.contains(HeaderField.folded(name)) }

    /// Whether an operator's header is sent with such requests.
    ///
    /// The value is false if the gateway sends its own header of the same name instead.
    public static func carries(_ name: String, _ value: String) -> Bool {
        !owns(name) && UpstreamSettings.headerProblem(name: name, value: value, isCredential: false) == nil
    }

    /// Whether the answer to the request can be 304.
    public var isConditional: Bool { etag != nil || lastModified != nil }
}

/// The relevant parts of the answer to an ``UpstreamFetch``.
public struct FetchedResponse: Sendable {
    public var status: Int
    /// The time in `Retry-After`, which may be given as a date or as a number of seconds.
    public var retryAt: Timestamp?
    public var location: String?
    /// The scheme of `WWW-Authenticate` or `Proxy-Authenticate`.
    public var challenge: String?
    /// The `Content-Type` without its parameters; nil if the header is missing or invalid.
    public var contentType: String?
    /// The `Content-Encoding`; nil if the header is missing.
    public var contentEncoding: String?
    /// The `ETag`; nil if later requests cannot send it. The same is true of ``lastModified``.
    public var etag: String?
    public var lastModified: String?
    /// The values of the `Link` headers.
    public var links: [String]
    /// The body; nil if the body is longer than the requested maximum, and therefore was not read completely.
    public var body: [UInt8]?
    /// The reservation of memory for the body. The reservation lasts as long as the response exists.
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
    /// There is no answer, or no complete answer. The associated value is the reason, for operators.
    case none(String)
}

/// Reads from upstreams.
///
/// Each request gets one answer. Other types evaluate the answer, and decide whether to send the request again.
public protocol UpstreamReader: Sendable {
    /// Sends a request that only reads.
    ///
    /// The method does not throw, because each result is an answer. After the task is cancelled, the method soon
    /// returns.
    func fetch(_ request: UpstreamFetch, from upstream: UpstreamSettings) async -> FetchAnswer
}
