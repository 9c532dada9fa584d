import Crypto
package import HTTPTypes
package import SyncModel
package import SyncStore

/// Authenticates operators by a bearer token, or by the cookie that the console received for a token.
package struct OperatorAuthenticator: Sendable {
    package let tokens: OperatorTokens
    package let ended: EndedSessions
    package let now: TimeSource

    /// An authenticated operator: the token, and the time at which the authentication expires, in seconds since 1970;
    /// nil if it does not expire.
    package struct Identity: Sendable {
        package let token: OperatorToken
        package var end: Int64?
    }

    /// Returns the token of a request.
    ///
    /// - Throws: 401, or 403 if another page caused a request with the cookie.
    package func identity(of request: HTTPRequest) async throws(Refusal) -> Identity {
        if request.headerFields[.authorization] == nil, let cookie = SessionCookie.value(request.headerFields) {
            guard let session = OperatorSession.token(of: cookie, among: tokens, at: now()) else {
                throw BearerToken.refusal("invalid_token", "The session has ended; sign in again.")
            }
            guard RequestOrigin(request).isOwn else {
                let detail =
                    "A session can only be used by the console itself. Neither Sec-Fetch-Site nor Origin shows that "
                    + "the console sent the request."
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

    /// - Throws: the errors of ``identity(of:)``, and 403 if the token's scope is not sufficient.
    package func authorize(_ request: HTTPRequest, for scope: OperatorScope) async throws(Refusal) -> Identity {
        let identity = try await identity(of: request)
        try Self.require(scope, of: identity.token)
        return identity
    }

    /// - Throws: 403 if the token's scope is not sufficient.
    package static func require(_ scope: OperatorScope, of token: OperatorToken) throws(Refusal) {
        guard token.scope >= scope else {
            let own = token.scope.rawValue
            throw Refusal(
                Problem(.forbidden, "This requires a token with the scope '\(scope.rawValue)'; yours has '\(own)'.")
            )
        }
    }
}

/// A secret for `/admin`, with its owner and its scope. Only a digest of the secret is stored.
package struct OperatorToken: Sendable, Equatable {
    /// The name of an operator whose token has no name.
    package static let defaultName = "operator"
    package static let hashPrefix = "sha256:"

    /// The operator's name in the audit log.
    @Exact package private(set) var name: String
    package let scope: OperatorScope
    /// SHA-256 of the secret.
    package let digest: [UInt8]

    /// Reads `[name@][scope:]secret`; nil if the text is invalid.
    ///
    /// The secret is in plain text, or in the form of ``OperatorTokens/hash(of:)``. A bearer token contains only
    /// letters, digits and `-._~+/=` (RFC 6750, 2.1), so it has neither `@` nor `:`.
    package init?(parsing word: Substring) {
        var rest = word
        var name = Self.defaultName
        if let at = rest.firstIndex(of: "@") {
            name = String(rest[..<at])
            guard Self.isValidName(name) else { return nil }
            rest = rest[rest.index(after: at)...]
        }
        var scope = OperatorScope.admin
        if let colon = rest.firstIndex(of: ":"), let named = OperatorScope(rawValue: String(rest[..<colon])) {
            scope = named
            rest = rest[rest.index(after: colon)...]
        }
        guard let digest = Self.digest(parsing: rest) else { return nil }
        self.name = name
        self.scope = scope
        self.digest = digest
    }

    /// Whether a text can be an operator's name: 1 to 32 lower-case letters, digits and hyphens.
    package static func isValidName(_ text: String) -> Bool {
        (1...32).contains(text.utf8.count)
            && text.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == UInt8(ascii: "-") }
    }

    package static func digest(of text: some StringProtocol) -> [UInt8] {
        Array(SHA256.hash(data: Array(text.utf8)))
    }

    package static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef")
        return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    private static func digest(parsing word: Substring) -> [UInt8]? {
        guard word.hasPrefix(hashPrefix) else {
            return word.utf8.count >= OperatorTokens.minimumBytes && BearerToken.isToken(word) ? digest(of: word) : nil
        }
        let digits = word.dropFirst(hashPrefix.count).utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count == 64, digits.allSatisfy({ $0 != nil }) else { return nil }
        let values = digits.map { UInt8($0 ?? 0) }
        return stride(from: 0, to: 64, by: 2).map { values[$0] << 4 | values[$0 + 1] }
    }
}

/// The tokens for `/admin`, stored as digests.
///
/// There can be several tokens, so that a token can be replaced without interruption, and each operator can have a
/// separate token.
package struct OperatorTokens: Sendable, Equatable {
    /// The maximum number of configured tokens.
    package static let maximum = 16
    /// The length of the shortest token, in bytes.
    package static let minimumBytes = 16

    package let all: [OperatorToken]

    /// Reads tokens that are separated by white space (``OperatorToken/init(parsing:)``).
    ///
    /// Returns nil if one of them is invalid, if there is no token, or if there are more than ``maximum``.
    package init?(parsing text: String) {
        let words = text.split(whereSeparator: \.isWhitespace)
        let tokens = words.compactMap(OperatorToken.init(parsing:))
        guard (1...Self.maximum).contains(words.count), tokens.count == words.count else { return nil }
        all = tokens
    }

    /// Two names under which the same token is configured; nil if each token has one name.
    ///
    /// If a token has two names, it is undefined which of them the audit log contains.
    package var conflictingNames: (String, String)? {
        for (index, token) in all.enumerated() {
            for other in all[..<index] where other.digest == token.digest && other.name != token.name {
                return (other.name, token.name)
            }
        }
        return nil
    }

    /// The form of a token for configurations: `sha256:` and 64 hexadecimal digits.
    ///
    /// A randomly generated token cannot be derived from this form.
    package static func hash(of token: String) -> String {
        OperatorToken.hashPrefix + OperatorToken.hexadecimal(OperatorToken.digest(of: token))
    }

    /// Returns the configured token that equals a text; nil if no token does.
    ///
    /// The search takes the same time for every text, because it compares all bytes of all digests. If two entries have
    /// the same token, the first is used.
    package func token(_ text: some StringProtocol) -> OperatorToken? {
        let digest = OperatorToken.digest(of: text)
        var found: OperatorToken?
        for token in all.reversed() {
            var difference: UInt8 = 0
            for (left, right) in zip(token.digest, digest) { difference |= left ^ right }
            if difference == 0 { found = token }
        }
        return found
    }
}
