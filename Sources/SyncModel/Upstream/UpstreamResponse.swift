/// An upstream's answer, as far as anybody looks at it.
public struct UpstreamResponse: Sendable {
    /// HTTP status.
    public var status: Int
    /// `Retry-After`, either form (RFC 9110, 10.2.3), as a moment.
    public var retryAt: Timestamp?
    /// `Location`.
    public var location: String?
    /// `ETag`, at most 1,000 bytes.
    public var etag: String?
    /// How the upstream, or a proxy before it, wants to be told who asks: the scheme of `WWW-Authenticate` or
    /// `Proxy-Authenticate`.
    public var challenge: String?
    /// The body, when it is valid JSON of at most 1 MiB, without white space around it.
    public var json: [UInt8]?
    /// The body, when it is JSON within the same limit that cannot be kept, for it holds what PostgreSQL cannot, or says a
    /// thing twice (``JSONDefect``): what an id can be read from, and nothing else.
    public var unkeptJSON: [UInt8]?
    /// Whether the answer broke off, or was not there in time; the body may be whole all the same. Of what is not a
    /// success this is no answer at all (``UpstreamAnswer/unknown(_:)``).
    public var isCutOff: Bool

    /// Creates an answer.
    public init(
        status: Int,
        retryAt: Timestamp? = nil,
        location: String? = nil,
        etag: String? = nil,
        challenge: String? = nil,
        json: [UInt8]? = nil,
        unkeptJSON: [UInt8]? = nil,
        isCutOff: Bool = false
    ) {
        self.status = status
        self.retryAt = retryAt
        self.location = location
        self.etag = etag
        self.challenge = challenge
        self.json = json
        self.unkeptJSON = unkeptJSON
        self.isCutOff = isCutOff
    }
}
