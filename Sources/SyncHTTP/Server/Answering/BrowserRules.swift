import HTTPTypes

/// The headers that restrict browsers' use of responses of the operations listener.
///
/// Browsers do not store responses below `/admin` and `/console`, problems included, and do not guess their types. A
/// response that sets one of these headers keeps it.
package enum BrowserRules {
    /// Only content from here is run, shown or requested; no page may frame it.
    private static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'
        """

    /// Adds them to every response.
    ///
    /// - Parameter path: of the request.
    static func mark(_ answer: inout Answer, at path: String) {
        let isConsole = stands(path, under: "/console")
        guard isConsole || stands(path, under: "/admin") else { return }
        if answer.headers[.cacheControl] == nil { answer.headers[.cacheControl] = "no-store" }
        if answer.headers[.xContentTypeOptions] == nil { answer.headers[.xContentTypeOptions] = "nosniff" }
        if isConsole { answer.headers[.contentSecurityPolicy] = policy }
    }

    private static func stands(_ path: String, under root: String) -> Bool {
        path == root || path.hasPrefix(root + "/")
    }
}
