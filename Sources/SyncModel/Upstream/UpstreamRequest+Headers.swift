import JSONText

/// Which headers go out with a request, besides the operator's; for the sender and the preview.
extension UpstreamRequest {
    /// Headers that make a request fail when the entity is not in the state that its author expected.
    private static let conditions: Set<ExactText> = ["if-match", "if-none-match", "if-unmodified-since"]

    /// The gateway decompresses nothing, and waits for no `100 Continue`.
    private static let never: Set<ExactText> = ["accept-encoding", "expect"]

    /// The form of a header's name in which some servers treat different names as the same: of two headers that share
    /// it, the first goes out.
    public static func foldedHeader(_ name: String) -> String { HeaderField.folded(name) }

    public static func canCarry(_ value: String) -> Bool { HeaderField.isValue(value) }

    /// Whether a header of the operator or the mutation goes out with this request, unless another of that name takes
    /// precedence.
    public func carries(_ name: String, _ value: String) -> Bool {
        let lowercased = name.lowercased()
        return !Self.never.contains(lowercased) && (body != nil || lowercased != "content-type")
            && UpstreamSettings.headerProblem(name: name, value: value, isCredential: false) == nil
    }

    /// The mutation's headers that go out.
    public var carriedHeaders: [ExactText: String] {
        headers.filter { name, value in
            carries(name.string, value) && !(isUnconditional && Self.conditions.contains(name.string.lowercased()))
        }
    }

    /// The mutation's headers and the gateway's, for the mutation's user: nothing of the credential and the operator's
    /// headers, not even which of the mutation's headers these replace. Names in lower case; the gateway's first, then
    /// by name.
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
