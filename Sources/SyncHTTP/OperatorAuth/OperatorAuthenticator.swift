package import HTTPTypes
package import SyncModel
package import SyncStore

/// Authenticates operators: by a bearer token, or by the cookie that the console received for one.
package struct OperatorAuthenticator: Sendable {
    package let tokens: OperatorTokens
    package let ended: EndedSessions
    package let now: TimeSource

    /// An authenticated operator: the token and, if it has an end, its end in seconds since 1970.
    package struct Identity: Sendable {
        package let token: OperatorToken
        package var end: Int64?
    }

    /// Returns the token of a request.
    ///
    /// - Throws: 401, or 403 if a request made by another page carries a cookie.
    package func identity(of request: HTTPRequest) async throws(Refusal) -> Identity {
        if request.headerFields[.authorization] == nil, let cookie = SessionCookie.value(request.headerFields) {
            guard let session = OperatorSession.token(of: cookie, among: tokens, at: now()) else {
                throw BearerToken.refusal("invalid_token", "The session has ended; sign in again.")
            }
            guard RequestOrigin(request).isOwn else {
                let detail = "A session can only be used by the console itself; Sec-Fetch-Site is a different site."
                throw Refusal(Problem(.forbidden, detail))
            }
            guard await !ended.contains(OperatorSession.digest(of: cookie)) else {
                throw BearerToken.refusal("invalid_token", "The session has ended; sign in again.")
            }
            return Identity(token: session.token, end: session.end)
        }
        guard let token = tokens.token(try BearerToken.of(request.headerFields)) else {
            throw BearerToken.refusal("invalid_token", "The token is not an operator's token.")
        }
        return Identity(token: token)
    }

    /// - Throws: also 403 if the token is good for less.
    package func authorize(_ request: HTTPRequest, for scope: OperatorScope) async throws(Refusal) -> Identity {
        let identity = try await identity(of: request)
        try Self.require(scope, of: identity.token)
        return identity
    }

    /// - Throws: 403 if a token is good for less.
    package static func require(_ scope: OperatorScope, of token: OperatorToken) throws(Refusal) {
        guard token.scope >= scope else {
            let own = token.scope.rawValue
            throw Refusal(
                Problem(.forbidden, "This requires a token with the scope '\(scope.rawValue)'; yours has '\(own)'.")
            )
        }
    }
}
