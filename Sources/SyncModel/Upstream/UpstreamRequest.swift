public import FoundationEssentials
import JSONText

/// One request to an upstream, with server ids in place of client ids.
public struct UpstreamRequest: Sendable, Hashable {
    /// A route as the operator wrote it.
    public struct Route: Sendable, Hashable {
        @Exact public private(set) var method: String
        /// The template of the path, such as `/contacts/{id}`.
        @Exact public private(set) var path: String
    }

    /// The value of `X-Sluice-Organization`.
    public var organization: UUID
    /// The mutation's user, which is the value of `X-Sluice-User`.
    public var user: UUID
    /// `POST`, `PATCH`, `PUT` or `DELETE`.
    @Exact public var method: String
    /// The path and query below the base URL, which begin with one slash.
    @Exact public var path: String
    /// The mutation's own headers, with names in lower case.
    @Exact public var headers: [ByteExactString: String]
    /// The value of `If-Match`, which replaces an `If-Match` among the mutation's headers.
    ///
    /// If nil, the mutation's headers are not changed.
    @Exact public var ifMatch: String?
    /// Whether to omit the conditions, such as `If-Match`, among the mutation's headers.
    ///
    /// True if the request overrides a conflict.
    public var isUnconditional = false
    private let givenBody: [UInt8]?
    /// The route from which the request is made; nil if the mutation has its own endpoint.
    public var route: Route?
    /// The body from a route's template, which replaces the given body; nil without a template.
    var routedBody: RoutedBody?
    /// The entity's document or patch, as JSON; nil if the body itself is this document or patch.
    public var content: [UInt8]?
    /// Whether the operator's route inserts the entity's id into the request.
    ///
    /// If true, the answer refers to this entity, even if the id is not a segment of the path.
    public var namesEntity = false
    /// The gateway's idempotency key, which is the same for all attempts of a revision (product rule 6).
    public var idempotencyKey: UUID
    /// The trace in which the request is a separate span; nil to begin a new trace.
    public var trace: TraceContext?
    /// The request's own span in the trace, if the span is recorded; nil for a new span.
    public var span: TraceContext?
    /// The recorded traces of the other mutations in a batch. The span of the request has links to these traces.
    public var linkedTraces: [TraceContext] = []
    public var timeout: Duration
    /// The number of mutations that the request sends: 1, or the number of parts of a batch.
    ///
    /// The maximum size of the answer grows with this number.
    public var partCount = 1
    /// Whether the upstream has answered fast so far. The answers of all other upstreams share a limited part of the
    /// memory.
    public var isUpstreamFast = true

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
        givenBody = body
        self.idempotencyKey = idempotencyKey
        self.timeout = timeout
    }
}

extension UpstreamRequest {
    /// The body as JSON; nil if the request has no body.
    ///
    /// A body from a template is rendered at each access.
    public var body: [UInt8]? { routedBody.map { $0.rendered() } ?? givenBody }

    /// The size of the body in bytes, or an upper bound of this size; nil if the request has no body.
    public var bodyBytes: Int? { routedBody.map(\.bytes) ?? givenBody?.count }

    /// The size of the request in a preview, in bytes, or an upper bound of this size.
    var shownBytes: Int {
        let headers = userHeaders.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 6 }
        return Self.encoded(path: path).utf8.count + headers + (bodyBytes ?? 0)
    }
}

/// The rules that decide which headers are sent with a request, in addition to the operator's headers.
///
/// The sender and the preview use these rules.
extension UpstreamRequest {
    /// The headers that make a request fail if the entity is not in the expected state.
    private static let conditions: Set<ByteExactString> = ["if-match", "if-none-match", "if-unmodified-since"]

    /// The headers that are never sent, because the gateway does not decompress answers and does not wait for
    /// `100 Continue`.
    private static let never: Set<ByteExactString> = ["accept-encoding", "expect"]

    /// The form in which some servers compare the names of headers.
    ///
    /// If two headers have the same form, only the first header is sent.
    public static func foldedHeader(_ name: String) -> String { HeaderField.folded(name) }

    public static func canCarry(_ value: String) -> Bool { HeaderField.isValue(value) }

    /// Whether a header of the operator or the mutation is sent with this request.
    ///
    /// The value is false if the gateway sends its own header of the same name instead.
    public func carries(_ name: String, _ value: String) -> Bool {
        let lowercased = name.lowercased()
        return !Self.never.contains(lowercased) && (bodyBytes != nil || lowercased != "content-type")
            && UpstreamSettings.headerProblem(name: name, value: value, isCredential: false) == nil
    }

    /// The mutation's headers that are sent with the request.
    public var carriedHeaders: [ByteExactString: String] {
        headers.filter { name, value in
            carries(name.string, value) && !(isUnconditional && Self.conditions.contains(name.string.lowercased()))
        }
    }

    /// The mutation's headers and the gateway's headers, as the mutation's user may see them.
    ///
    /// The result reveals nothing about the credential and the operator's headers. Therefore the result also contains
    /// the mutation's headers that the operator's headers replace. The names are in lower case. The gateway's headers
    /// come first, then the mutation's headers, ordered by name.
    var userHeaders: [(name: String, value: String)] {
        var ours = [
            (name: "idempotency-key", value: idempotencyKey.lowercased),
            (name: "x-sluice-organization", value: organization.lowercased),
            (name: "x-sluice-user", value: user.lowercased),
        ]
        if let ifMatch { ours.append((name: "if-match", value: ifMatch)) }
        let own = carriedHeaders.map { (name: $0.key.string.lowercased(), value: $0.value) }
            .filter { header in !ours.contains { $0.name == header.name } }
        return ours + own.sorted { $0.name < $1.name }
    }
}

extension UpstreamRequest {
    /// Percent-encodes all characters of a path and query that a URL cannot contain. Existing escapes are not changed.
    public static func encoded(path: String) -> String {
        let bytes = Array(path.utf8)
        if bytes.allSatisfy(isKept) { return path }
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        for (index, byte) in bytes.enumerated() {
            let isEscape =
                byte == UInt8(ascii: "%") && PercentEncoding.escape(bytes[(index + 1)...].prefix(2)) != nil
            if isKept(byte) || isEscape {
                output.append(byte)
            } else {
                output += PercentEncoding.escaped(byte)
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Whether a byte is not encoded: unreserved, sub-delims, ":", "@", "/" or "?" of RFC 3986.
    private static func isKept(_ byte: UInt8) -> Bool {
        switch byte {
        case 48...58, 63...90, 97...122, 0x5f, 0x7e, 0x21, 0x24, 0x26...0x2f, 0x3b, 0x3d: true
        default: false
        }
    }
}
