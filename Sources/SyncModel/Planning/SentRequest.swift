/// The request of a revision in place of the mutation's own.
///
/// It replaces method, endpoint and payload, and carries no If-Match.
public struct SentRequest: Sendable, Hashable {
    /// `PATCH`, `PUT` or `DELETE`.
    @Exact public var method: String
    /// Nil: the mutation's own.
    @Exact public var endpoint: String?
    /// JSON; nil: the mutation's own.
    public var payload: [UInt8]?

    public init(method: String, endpoint: String? = nil, payload: [UInt8]? = nil) {
        self.method = method
        self.endpoint = endpoint
        self.payload = payload
    }
}
