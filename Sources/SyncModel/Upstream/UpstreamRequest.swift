public import Foundation

/// One request to an upstream, with server ids in place.
public struct UpstreamRequest: Sendable, Hashable {
    /// `X-Sluice-Organization`.
    public var organization: UUID
    /// The mutation's user; `X-Sluice-User`.
    public var user: UUID
    /// `POST`, `PATCH`, `PUT` or `DELETE`.
    @Exact public var method: String
    /// Path and query below the base URL; begins with one slash.
    @Exact public var path: String
    /// The mutation's own headers, names in lower case.
    @Exact public var headers: [ByteExactString: String]
    /// `If-Match`, which takes precedence over one among the mutation's headers.
    ///
    /// Nil leaves those as they are.
    @Exact public var ifMatch: String?
    /// Whether to leave out conditions among the mutation's headers.
    ///
    /// Set if the request is to override a conflict.
    public var isUnconditional = false
    /// JSON; nil for none.
    public var body: [UInt8]?
    /// The gateway's key, the same for all attempts of one revision (product rule 6).
    public var idempotencyKey: UUID
    /// The trace in which the request is a separate span; nil begins a new trace.
    public var trace: TraceContext?
    public var timeout: Duration

    public init(
        organization: UUID,
        user: UUID,
        method: String,
        path: String,
        headers: [ByteExactString: String] = [:],
        body: [UInt8]? = nil,
        idempotencyKey: UUID,
        timeout: Duration
    ) {
        self.organization = organization
        self.user = user
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.idempotencyKey = idempotencyKey
        self.timeout = timeout
    }
}
