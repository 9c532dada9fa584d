import JSONText

/// Which headers go out with a request, of those that are not the operator's: the sender and the preview ask here.
extension UpstreamRequest {
    /// What makes a request fail when the entity is not what its author believed.
    private static let conditions: Set<String> = ["if-match", "if-none-match", "if-unmodified-since"]

    /// We decompress nothing, and wait for no `100 Continue`.
    private static let never: Set<String> = ["accept-encoding", "expect"]

    /// The form of a header's name in which some servers take different names for the same: of two that share it, the
    /// first goes out.
    public static func foldedHeader(_ name: String) -> String { HeaderField.folded(name) }

    /// Whether a header's value can be sent at all.
    public static func canCarry(_ value: String) -> Bool { HeaderField.isValue(value) }

    /// Whether a header that the operator or the mutation wants goes out with this request, unless another of that name
    /// goes before it.
    public func carries(_ name: String, _ value: String) -> Bool {
        let lowercased = name.lowercased()
        return !Self.never.contains(lowercased) && (body != nil || lowercased != "content-type")
            && UpstreamSettings.headerProblem(name: name, value: value, isCredential: false) == nil
    }

    /// Those of the mutation's headers that go out.
    public var carriedHeaders: [String: String] {
        headers.filter { name, value in
            carries(name, value) && !(isUnconditional && Self.conditions.contains(name.lowercased()))
        }
    }

    /// The mutation's headers and ours, for its user to see: nothing of the credential and of the operator's headers,
    /// not even which of the mutation's they go before. Names in lower case; ours first, then by name.
    var userHeaders: [(name: String, value: String)] {
        var ours = [
            (name: "idempotency-key", value: idempotencyKey.lowercased),
            (name: "x-sluice-organization", value: organization.lowercased),
            (name: "x-sluice-user", value: user.lowercased),
        ]
        if let ifMatch { ours.append((name: "if-match", value: ifMatch)) }
        let own = carriedHeaders.map { (name: $0.key.lowercased(), value: $0.value) }
            .filter { header in !ours.contains { $0.name == header.name } }
        return ours + own.sorted { $0.name < $1.name }
    }
}
