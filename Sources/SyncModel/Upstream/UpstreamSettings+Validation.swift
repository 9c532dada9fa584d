extension UpstreamSettings {
    /// The most bytes that a base URL may have.
    package static let maximumBaseURLBytes = 2_000

    /// What is wrong with a base URL; reads on from "base_url …". Nil: nothing.
    ///
    /// One is `http` or `https`, a host (a name, an IPv4 address, or an IPv6 address in brackets), perhaps a port and
    /// a path; slashes at the end do not matter (``normalizedBaseURL(_:)``).
    package static func baseURLProblem(_ text: String) -> String? {
        guard text.utf8.count <= maximumBaseURLBytes else { return "is longer than \(maximumBaseURLBytes) bytes" }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            return "may hold only ASCII, without spaces and control characters"
        }
        guard let parts = BaseURL(text) else { return "must start with http:// or https://" }
        return parts.problem
    }

    /// The one form of a base URL without a problem that is stored: without slashes at its end, scheme and host in
    /// lower case.
    package static func normalizedBaseURL(_ text: String) -> String {
        guard let parts = BaseURL(text) else { return text }
        return "\(parts.scheme.lowercased())://\(parts.authority.lowercased())\(parts.path)"
    }

    /// What is wrong with a header that an operator wants on every request; reads on from "header …". Nil: nothing.
    ///
    /// - Parameter isCredential: whether it is the credential, which may be `Authorization` or `Cookie`.
    package static func headerProblem(name: String, value: String, isCredential: Bool) -> String? {
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
