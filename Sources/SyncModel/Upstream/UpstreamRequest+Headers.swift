import JSONText

/// Which headers are sent with a request, besides the operator's.
///
/// The sender and the preview use these rules.
extension UpstreamRequest {
    /// Headers that make a request fail when the entity is not in the expected state.
    private static let conditions: Set<ByteExactString> = ["if-match", "if-none-match", "if-unmodified-since"]

    /// The gateway decompresses nothing, and waits for no `100 Continue`.
    private static let never: Set<ByteExactString> = ["accept-encoding", "expect"]

    /// The form of a header's name in which some servers treat names as the same.
    ///
    /// Of two headers that share it, the first is sent.
    public static func foldedHeader(_ name: String) -> String { HeaderField.folded(name) }

    public static func canCarry(_ value: String) -> Bool { HeaderField.isValue(value) }

    /// Whether a header of the operator or the mutation is sent with this request.
    ///
    /// False if another header of that name takes precedence.
    public func carries(_ name: String, _ value: String) -> Bool {
        let lowercased = name.lowercased()
        return !Self.never.contains(lowercased) && (body != nil || lowercased != "content-type")
            && UpstreamSettings.headerProblem(name: name, value: value, isCredential: false) == nil
    }

    /// The mutation's headers that are sent.
    public var carriedHeaders: [ByteExactString: String] {
        headers.filter { name, value in
            carries(name.string, value) && !(isUnconditional && Self.conditions.contains(name.string.lowercased()))
        }
    }

    /// The mutation's headers and the gateway's, for the mutation's user.
    ///
    /// It shows nothing of the credential and the operator's headers, not even which of the mutation's headers these
    /// replace. Names in lower case; the gateway's first, then by name.
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
