import JSONText
import NIOHTTP1
import SyncModel

/// The headers of a request, without `Content-Length`, which the client adds.
///
/// If several sources set a header with the same name (ignoring case), the header of the first source is used. The
/// order of the sources is: the gateway, the credential, the operator, the mutation, the gateway's defaults.
struct RequestHeaders {
    private(set) var fields = HTTPHeaders()

    /// - Parameter credential: the credential's header; nil without a credential.
    init(
        _ request: UpstreamRequest,
        host: String,
        credential: (name: String, value: String)?,
        operators: [ByteExactString: String],
        userAgent: String
    ) {
        fields.reserveCapacity(12 + operators.count + request.headers.count)
        fields.add(name: "Host", value: host)
        fields.add(name: "Idempotency-Key", value: request.idempotencyKey.lowercased)
        fields.add(name: "X-Sluice-Organization", value: request.organization.lowercased)
        fields.add(name: "X-Sluice-User", value: request.user.lowercased)
        fields.add(name: "traceparent", value: (request.span ?? request.trace?.child() ?? TraceContext()).traceparent)
        if let ifMatch = request.ifMatch { fields.add(name: "If-Match", value: ifMatch) }
        if let credential { addUnlessPresent(credential.name, credential.value) }
        for (name, value) in operators where request.carries(name.string, value) {
            addUnlessPresent(name.string, value)
        }
        for (name, value) in request.carriedHeaders { addUnlessPresent(name.string, value) }
        if request.bodyBytes != nil { addUnlessPresent("Content-Type", "application/json") }
        addUnlessPresent("Accept", "application/json")
        // without this header, a server may compress its response (RFC 9110, 12.5.3), and the gateway cannot decompress
        // it
        fields.add(name: "Accept-Encoding", value: "identity")
        addUnlessPresent("User-Agent", userAgent)
    }

    /// The headers of a request that only reads.
    ///
    /// The headers contain no user and no idempotency key, because such a request belongs to no user and changes
    /// nothing.
    init(
        _ request: UpstreamFetch,
        host: String,
        credential: (name: String, value: String)?,
        operators: [ByteExactString: String],
        userAgent: String
    ) {
        fields.add(name: "Host", value: host)
        fields.add(name: "X-Sluice-Organization", value: request.organization.lowercased)
        fields.add(name: "traceparent", value: TraceContext().traceparent)
        if let etag = request.etag { fields.add(name: "If-None-Match", value: etag) }
        if let lastModified = request.lastModified { fields.add(name: "If-Modified-Since", value: lastModified) }
        if let credential { addUnlessPresent(credential.name, credential.value) }
        for headers in [request.headers, operators] {
            for (name, value) in headers where UpstreamFetch.carries(name.string, value) {
                addUnlessPresent(name.string, value)
            }
        }
        if request.body != nil { addUnlessPresent("Content-Type", "application/json") }
        addUnlessPresent("Accept", "application/json")
        // without this header, a server may compress its response (RFC 9110, 12.5.3), and the gateway cannot decompress
        // it
        fields.add(name: "Accept-Encoding", value: "identity")
        addUnlessPresent("User-Agent", userAgent)
    }

    private mutating func addUnlessPresent(_ name: String, _ value: String) {
        guard !fields.contains(name: name) else { return }
        let folded = UpstreamRequest.foldedHeader(name)
        guard !fields.contains(where: { UpstreamRequest.foldedHeader($0.name) == folded }) else { return }
        fields.add(name: name, value: value)
    }
}
