extension UpstreamSettings {
    /// The error in a header that an operator wants on every request; nil if valid.
    ///
    /// It completes "header …".
    ///
    /// - Parameter isCredential: whether it is the credential, which may be `Authorization` or `Cookie`.
    public static func headerProblem(name: String, value: String, isCredential: Bool) -> String? {
        guard HeaderField.isName(name) else { return "has a name that is none (RFC 9110 token)" }
        if HeaderField.isOurs(name) { return "is set by the gateway; leave it out" }
        if !isCredential, HeaderField.credentials.contains(HeaderField.folded(name)) {
            return "tells who we are; use credential"
        }
        if isCredential, value.isEmpty { return "has no value" }
        guard HeaderField.isValue(value) else {
            return "may have no control characters and at most \(HeaderField.maximumValueBytes) bytes"
        }
        return nil
    }
}
