extension UpstreamSettings {
    /// The error in a header that an operator wants on every request; nil if valid.
    ///
    /// It completes "header …".
    ///
    /// - Parameter isCredential: whether it is the credential, which may be `Authorization` or `Cookie`.
    public static func headerProblem(name: String, value: String, isCredential: Bool) -> String? {
        guard HeaderField.isName(name) else { return "is not a valid header name (RFC 9110 token)" }
        if HeaderField.isOurs(name) { return "is set by the gateway; omit it" }
        if !isCredential, HeaderField.credentials.contains(HeaderField.folded(name)) {
            return "authenticates the gateway; use credential"
        }
        if isCredential, value.isEmpty { return "has no value" }
        guard HeaderField.isValue(value) else {
            return "must have at most \(HeaderField.maximumValueBytes) bytes and no control characters"
        }
        return nil
    }
}
