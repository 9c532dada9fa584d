/// What a preview is answered with: what a push would come to, and what would be sent.
package struct PushPreview: Sendable {
    /// What would come of one entry.
    package struct Result: Sendable {
        /// What is answered.
        package let entry: PushEntry
        /// What would come of it at once. Ids that only a push makes are left out.
        package let verdict: PushVerdict
        /// What would be sent; nil where nothing would, and for what is not new.
        package let request: PreviewedRequest?
        /// What its turn would be in conflict with before anything is sent: a problem object as JSON.
        package let conflict: [UInt8]?
        /// What the client would be told besides; nil for nothing.
        package let warning: PushWarning?
    }

    /// The device's watermark afterwards.
    package let acceptedSequence: Int64
    /// In request order.
    package let results: [Result]
    /// Resolved mappings of this user that the batch touches, as they stand.
    package let mappings: [IDMapping]
}

/// A request as its mutation's user may see it: without the organization's credential, its own headers and its address.
package struct PreviewedRequest: Sendable, Hashable {
    /// A header of the mutation or of ours.
    package struct Header: Sendable, Hashable {
        /// In lower case.
        package let name: String
        /// As it is sent.
        package let value: String
    }

    /// `POST`, `PATCH`, `PUT` or `DELETE`.
    package let method: String
    /// Path and query as they stand behind the base URL.
    package let path: String
    /// Ours first, then by name.
    package let headers: [Header]
    /// JSON; nil for none.
    package let body: [UInt8]?
    /// Client ids, and ids of the device, in path and body in whose place there will be server ids that are not known yet.
    package let unresolvedIDs: [ServerID]

    init(_ request: UpstreamRequest, unresolved: [ServerID]) {
        method = request.method
        path = UpstreamRequest.encoded(path: request.path)
        headers = request.userHeaders.map { Header(name: $0.name, value: $0.value) }
        body = request.body
        unresolvedIDs = unresolved
    }
}
