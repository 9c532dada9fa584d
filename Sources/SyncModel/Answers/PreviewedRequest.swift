/// A request as its mutation's user may see it: without the organization's credential, its own headers and its address.
public struct PreviewedRequest: Sendable, Hashable {
    /// A header of the mutation or of ours.
    public struct Header: Sendable, Hashable {
        /// In lower case.
        public let name: String
        /// As it is sent.
        public let value: String
    }

    /// `POST`, `PATCH`, `PUT` or `DELETE`.
    public let method: String
    /// Path and query as they stand behind the base URL.
    public let path: String
    /// Ours first, then by name.
    public let headers: [Header]
    /// JSON; nil for none.
    public let body: [UInt8]?
    /// Client ids, and ids of the device, in path and body in whose place there will be server ids that are not known yet.
    public let unresolvedIDs: [ServerID]

    init(_ request: UpstreamRequest, unresolved: [ServerID]) {
        method = request.method
        path = UpstreamRequest.encoded(path: request.path)
        headers = request.userHeaders.map { Header(name: $0.name, value: $0.value) }
        body = request.body
        unresolvedIDs = unresolved
    }
}
