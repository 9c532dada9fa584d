package import HTTPTypes

/// The origin of a request as reported by the browser.
///
/// A browser also sends the cookie with requests of other pages. The browser itself sets these two fields, and no page
/// can change them.
package struct RequestOrigin {
    package let method: HTTPRequest.Method
    /// `Sec-Fetch-Site` (W3C Fetch Metadata); browsers leave it out if they do not trust the connection.
    package let site: String?
    /// RFC 6454
    package let origin: String?
    /// The `Host` that was asked.
    package let host: String?

    package init(_ request: HTTPRequest) {
        method = request.method
        site = request.headerFields[.secFetchSite]
        origin = request.headerFields[.origin]
        host = request.authority
    }

    /// Whether a request with a cookie may be served.
    ///
    /// One that changes something must come from the console itself; one that only reads must not come from another
    /// page.
    package var isOwn: Bool {
        let isLook = method == .get || method == .head
        if let site { return site == "same-origin" || isLook && site == "none" }
        guard let origin else { return isLook }
        return isOfHost(origin)
    }

    /// Whether a sign-in is allowed: programs other than browsers send no origin.
    package var maySignIn: Bool {
        if let site { return site == "same-origin" }
        return origin.map(isOfHost) ?? true
    }

    private func isOfHost(_ origin: String) -> Bool {
        guard let host else { return false }
        return ["http://", "https://"].contains { origin.lowercased() == $0 + host.lowercased() }
    }
}
