public import Foundation

/// Sends requests to upstreams. One request, one answer: what it means and whether to try again is decided elsewhere.
public protocol Upstream: Sendable {
    /// Sends a request. Never throws: whatever happens is an answer. A cancelled task is answered `unknown` soon.
    func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer
}

/// One request to an upstream, with server ids in place.
public struct UpstreamRequest: Sendable, Hashable {
    /// The tenant; `X-Sluice-Organization`.
    public var organization: UUID
    /// Whose mutation it is; `X-Sluice-User`.
    public var user: UUID
    /// `POST`, `PATCH`, `PUT` or `DELETE`.
    public var method: String
    /// Path and query below the base URL; begins with one slash.
    public var path: String
    /// The mutation's own headers, names in lower case.
    public var headers: [String: String]
    /// `If-Match`, which goes before one among the mutation's headers; nil leaves those as they are.
    public var ifMatch: String?
    /// Whether an If-Match among the mutation's headers is left out: the request is to have its way.
    public var isUnconditional: Bool
    /// JSON; nil for none.
    public var body: [UInt8]?
    /// Ours, stable over all attempts of one revision (product rule 6).
    public var idempotencyKey: UUID
    /// The trace that the request goes on with, as a span of its own; nil begins a new one.
    public var trace: TraceContext?
    /// How long it may take.
    public var timeout: Duration

    /// Creates a request.
    public init(
        organization: UUID,
        user: UUID,
        method: String,
        path: String,
        headers: [String: String] = [:],
        ifMatch: String? = nil,
        isUnconditional: Bool = false,
        body: [UInt8]? = nil,
        idempotencyKey: UUID,
        trace: TraceContext? = nil,
        timeout: Duration
    ) {
        self.organization = organization
        self.user = user
        self.method = method
        self.path = path
        self.headers = headers
        self.ifMatch = ifMatch
        self.isUnconditional = isUnconditional
        self.body = body
        self.idempotencyKey = idempotencyKey
        self.trace = trace
        self.timeout = timeout
    }
}

/// What came of a request.
public enum UpstreamAnswer: Sendable {
    /// The upstream answered.
    case response(UpstreamResponse)
    /// Nothing was sent, for certain: there is no connection. The reason, for operators and users.
    case notSent(String)
    /// Nothing was sent, and nothing ever will be: the gateway itself refuses the request as it is. It says nothing of
    /// the upstream. The reason.
    case refused(String)
    /// Nothing was sent, for nothing can be sent to this upstream as it is set up, or not by this gateway: there is no
    /// key to sign with, or the gateway ends. It says nothing of the request, nor of the upstream. The reason.
    case unready(String)
    /// No answer, though the request may have arrived: it timed out, or the connection broke. The reason.
    case unknown(String)
}

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
