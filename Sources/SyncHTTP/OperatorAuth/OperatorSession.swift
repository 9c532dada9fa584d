import Crypto
package import FoundationEssentials
package import HTTPTypes
package import SyncModel

/// The content of a signed-in operator's cookie: the token's identification, the end of the session, and a proof of
/// both.
///
/// Only a program that has the token's digest can create the proof. Every gateway accepts the cookie until it expires,
/// its token is removed from the setting, or the operator signs out (``EndedSessions``).
package enum OperatorSession {
    /// The duration of a session, in seconds.
    package static let seconds: Int64 = 43_200
    private static let version = "v1"

    /// Returns `v1.`, an identification of the token among the configured tokens, the end in seconds since 1970, and
    /// the proof.
    package static func text(for token: OperatorToken, until end: Int64) -> String {
        let claim = "\(version).\(mark(of: token)).\(end)"
        let proof = HMAC<SHA256>.authenticationCode(for: Data(claim.utf8), using: key(of: token))
        return claim + "." + OperatorToken.hexadecimal(proof)
    }

    /// Returns the token that a cookie represents, and the end of the session.
    ///
    /// Returns nil if no gateway created the cookie, if it has expired, or if its token is no longer configured.
    package static func token(
        of text: some StringProtocol,
        among tokens: OperatorTokens,
        at now: Timestamp
    ) -> (token: OperatorToken, end: Int64)? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == version, let end = Int64(parts[2]), now.seconds < end,
            end <= now.seconds + seconds,
            let token = tokens.all.first(where: { mark(of: $0) == parts[1] }),
            let proof = bytes(parts[3])
        else { return nil }
        let claim = "\(version).\(parts[1]).\(parts[2])"
        // the comparison takes constant time
        let isOurs = HMAC<SHA256>.isValidAuthenticationCode(
            proof,
            authenticating: Data(claim.utf8),
            using: key(of: token)
        )
        return isOurs ? (token, end) : nil
    }

    /// Returns the digest of a cookie's text. When an operator ends the session, the digest is stored.
    package static func digest(of text: some StringProtocol) -> Data { Data(SHA256.hash(data: Data(text.utf8))) }

    private static func key(of token: OperatorToken) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: token.digest),
            info: Data("sluice console session".utf8),
            outputByteCount: 32
        )
    }

    /// Returns a text that distinguishes configured tokens without revealing their digests.
    private static func mark(of token: OperatorToken) -> String {
        OperatorToken.hexadecimal(SHA256.hash(data: Data("sluice console token".utf8) + token.digest).prefix(8))
    }

    private static func bytes(_ text: some StringProtocol) -> [UInt8]? {
        let digits = text.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count == 64, digits.allSatisfy({ $0 != nil }) else { return nil }
        return stride(from: 0, to: 64, by: 2).map { UInt8((digits[$0] ?? 0) << 4 | (digits[$0 + 1] ?? 0)) }
    }
}

/// The cookie of the console (RFC 6265).
///
/// If a proxy in front of the gateway reports TLS, the cookie's name has the prefix `__Host-`, so that other hosts
/// cannot set the cookie.
package enum SessionCookie {
    private static let name = "sluice_session"
    private static let hostName = "__Host-sluice_session"

    /// The cookie's value; nil if the request does not have the cookie.
    package static func value(_ headers: HTTPFields) -> Substring? {
        var found: Substring?
        for field in headers[values: .cookie] {
            for pair in field.split(separator: ";") {
                let parts = Substring(pair.utf8.drop { $0 == UInt8(ascii: " ") }).split(separator: "=", maxSplits: 1)
                guard parts.count == 2 else { continue }
                if parts[0] == hostName { return parts[1] }
                if parts[0] == name { found = found ?? parts[1] }
            }
        }
        return found
    }

    /// Returns the `Set-Cookie` field. A duration of 0 seconds removes the cookie.
    package static func field(_ value: String, seconds: Int64, over headers: HTTPFields) -> String {
        let isSecure = headers[.xForwardedProto]?.lowercased() == "https"
        let end = "; HttpOnly; SameSite=Strict; Path=/; Max-Age=\(seconds)"
        return isSecure ? "\(hostName)=\(value); Secure\(end)" : "\(name)=\(value)\(end)"
    }
}
