import HTTPTypes
import SyncModel

/// Lets operators in: by a bearer token, or by the cookie that the console has got for one.
struct OperatorDoor: Sendable {
    let tokens: OperatorTokens
    let now: TimeSource

    /// The token that a request comes with.
    ///
    /// - Throws: 401, or 403 where a cookie came along with what another page has asked.
    func token(of request: HTTPRequest) throws(Refusal) -> OperatorToken {
        if request.headerFields[.authorization] == nil, let cookie = SessionCookie.value(request.headerFields) {
            guard let token = OperatorSession.token(of: cookie, among: tokens, at: now()) else {
                throw BearerToken.refusal("invalid_token", "The session has ended; sign in again.")
            }
            guard RequestOrigin(request).isOwn else {
                let detail = "A session is good for requests of the console itself; Sec-Fetch-Site says otherwise."
                throw Refusal(Problem(.forbidden, detail))
            }
            return token
        }
        guard let token = tokens.token(try BearerToken.of(request.headerFields)) else {
            throw BearerToken.refusal("invalid_token", "The token is not the operator's.")
        }
        return token
    }

    /// - Throws: also 403 where the token is good for less.
    func admit(_ request: HTTPRequest, for scope: OperatorScope) throws(Refusal) -> OperatorToken {
        let token = try token(of: request)
        guard token.scope >= scope else {
            let detail = "This needs a token with the scope '\(scope.rawValue)'; yours has '\(token.scope.rawValue)'."
            throw Refusal(Problem(.forbidden, detail))
        }
        return token
    }
}
