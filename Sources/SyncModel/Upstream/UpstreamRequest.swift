public import FoundationEssentials
import JSONText

/// One request to an upstream, in which server ids have replaced client ids.
public struct UpstreamRequest: Sendable, Hashable {
    /// The value of `X-Sluice-Organization`.
    public var organization: UUID
    /// The mutation's user, who is the value of `X-Sluice-User`.
    public var user: UUID
    /// `POST`, `PATCH`, `PUT` or `DELETE`.
    @Exact public var method: String
    /// Path and query below the base URL; begins with one slash.
    @Exact public var path: String
    /// The mutation's own headers, names in lower case.
    @Exact public var headers: [ByteExactString: String]
    /// The value of `If-Match`, which replaces an `If-Match` among the mutation's headers.
    ///
    /// Nil does not change the mutation's headers.
    @Exact public var ifMatch: String?
    /// Whether to omit conditions among the mutation's headers.
    ///
    /// Set if the request is to override a conflict.
    public var isUnconditional = false
    private let givenBody: [UInt8]?
    /// The body that a route's template makes, in place of the given body.
    var routedBody: RoutedBody?
    /// The entity's document or patch, JSON; nil if the body is this document or patch.
    public var content: [UInt8]?
    /// Whether the operator's route puts the entity's id into the request.
    ///
    /// If so, the answer concerns this entity even if the id is not a segment of the path.
    public var namesEntity = false
    /// The gateway's key, the same for all attempts of one revision (product rule 6).
    public var idempotencyKey: UUID
    /// The trace in which the request is a separate span; nil begins a new trace.
    public var trace: TraceContext?
    /// The request's own span in that trace, if it is recorded; nil for a new span.
    public var span: TraceContext?
    /// The recorded traces of a batch's other mutations, to which the span of the request has links.
    public var linkedTraces: [TraceContext] = []
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
        givenBody = body
        self.idempotencyKey = idempotencyKey
        self.timeout = timeout
    }
}

extension UpstreamRequest {
    /// The body, JSON; nil without a body. A body that a template makes is rendered at each access.
    public var body: [UInt8]? { routedBody.map { $0.rendered() } ?? givenBody }

    /// The number of bytes of the body, or an upper bound of it; nil without a body.
    public var bodyBytes: Int? { routedBody.map(\.bytes) ?? givenBody?.count }
}

/// The rules that decide which headers are sent with a request, in addition to the operator's headers.
///
/// The sender and the preview use these rules.
extension UpstreamRequest {
    /// Headers that make a request fail when the entity is not in the expected state.
    private static let conditions: Set<ByteExactString> = ["if-match", "if-none-match", "if-unmodified-since"]

    /// Headers that are never sent: the gateway decompresses no answer, and does not wait for `100 Continue`.
    private static let never: Set<ByteExactString> = ["accept-encoding", "expect"]

    /// The form in which some servers compare the names of headers.
    ///
    /// If two headers have the same form, only the first is sent.
    public static func foldedHeader(_ name: String) -> String { HeaderField.folded(name) }

    public static func canCarry(_ value: String) -> Bool { HeaderField.isValue(value) }

    /// Whether a header of the operator or the mutation is sent with this request.
    ///
    /// False if the gateway's header of the same name is sent instead.
    public func carries(_ name: String, _ value: String) -> Bool {
        let lowercased = name.lowercased()
        return !Self.never.contains(lowercased) && (bodyBytes != nil || lowercased != "content-type")
            && UpstreamSettings.headerProblem(name: name, value: value, isCredential: false) == nil
    }

    /// The mutation's headers that are sent.
    public var carriedHeaders: [ByteExactString: String] {
        headers.filter { name, value in
            carries(name.string, value) && !(isUnconditional && Self.conditions.contains(name.string.lowercased()))
        }
    }

    /// The mutation's headers and the gateway's headers, as the mutation's user may see them.
    ///
    /// They reveal nothing about the credential and the operator's headers, not even which of the mutation's headers
    /// these replace. The names are in lower case. The gateway's headers come first, then the others by name.
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
    /// Percent-encodes all characters of a path and query that a URL cannot contain. Existing escapes are kept.
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

    /// RFC 3986: unreserved, sub-delims, ":", "@", "/" and "?".
    private static func isKept(_ byte: UInt8) -> Bool {
        switch byte {
        case 48...58, 63...90, 97...122, 0x5f, 0x7e, 0x21, 0x24, 0x26...0x2f, 0x3b, 0x3d: true
        default: false
        }
    }
}
