/// The mutations' headers that are sent.
extension UpstreamSettings {
    /// Headers that mutations of every organization may carry, in lower case.
    ///
    /// Preferences for the answer, the content's language, and preconditions of the request.
    static let alwaysAllowedHeaders: Set<ByteExactString> = [
        "accept", "accept-language", "content-language", "if-match", "if-none-match", "if-unmodified-since", "prefer",
    ]

    public static let maximumAllowedHeaders = 32

    /// Whether a mutation's header is sent.
    ///
    /// One that is not on the list is not sent, even if the mutation was accepted while it was, or while there was no
    /// list.
    func allows(_ name: String) -> Bool {
        let lowercased = name.lowercased()
        return Self.alwaysAllowedHeaders.contains(lowercased)
            || (allowedHeaders.contains(lowercased) && !HeaderField.isReserved(lowercased))
    }

    /// The error in a header that an operator wants mutations to carry; nil if valid.
    ///
    /// It completes "header …".
    public static func allowedHeaderProblem(_ name: String) -> String? {
        guard HeaderField.isName(name) else { return "is not a valid header name (RFC 9110 token)" }
        guard name.utf8.count <= 100 else { return "has a name of more than 100 bytes" }
        if HeaderField.isReserved(name) { return "cannot be set by mutations" }
        let folded = HeaderField.folded(name)
        if folded != name.lowercased(), alwaysAllowedHeaders.contains(folded) {
            return "is another spelling of \(folded), which is already allowed"
        }
        return nil
    }
}
