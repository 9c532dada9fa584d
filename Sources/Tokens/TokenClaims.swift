package import FoundationEssentials

/// The claims of a verified token. Only a verifier makes one from a token.
package struct TokenClaims: Sendable, Hashable {
    /// The organization on whose behalf the bearer acts.
    package let organization: UUID
    package let user: UUID
    /// When the token expires, in seconds since 1970; from then on it is refused, after the configured leeway.
    package let expiresAt: Int64
}
