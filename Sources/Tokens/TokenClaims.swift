package import FoundationEssentials

/// What a verified token says about its bearer. Only a verifier makes one from a token.
package struct TokenClaims: Sendable, Hashable {
    /// The organization on whose behalf the bearer speaks.
    package let organization: UUID
    package let user: UUID
    /// When the token ends, in seconds since 1970; from then on it is refused, save for the configured leeway.
    package let expiresAt: Int64
}
