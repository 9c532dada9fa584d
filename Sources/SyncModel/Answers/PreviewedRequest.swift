/// A request as the mutation's user may see it.
///
/// It lacks the organization's credential, headers and base URL.
public struct PreviewedRequest: Sendable, Hashable {
    /// A header of the mutation, or one that the gateway sets.
    public struct Header: Sendable, Hashable {
        /// In lower case.
        @Exact public private(set) var name: String
        @Exact public private(set) var value: String
    }

    /// `POST`, `PATCH`, `PUT` or `DELETE`.
    @Exact public private(set) var method: String
    /// Path and query, relative to the base URL.
    @Exact public private(set) var path: String
    /// The gateway's headers first, then the others by name.
    public let headers: [Header]
    /// JSON; nil for none.
    public let body: [UInt8]?
    /// Client ids and device ids in path and body whose server ids are not known yet.
    public let unresolvedIDs: [ServerID]

    init(_ request: UpstreamRequest, unresolved: [ServerID]) {
        method = request.method
        path = UpstreamRequest.encoded(path: request.path)
        headers = request.userHeaders.map { Header(name: $0.name, value: $0.value) }
        body = request.body
        unresolvedIDs = unresolved
    }
}
