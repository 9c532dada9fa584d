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
