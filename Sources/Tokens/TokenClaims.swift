package import FoundationEssentials
package import SyncModel

/// The claims of a verified token. Only a verifier makes one from a token.
package struct TokenClaims: Sendable, Hashable {
    /// Who the bearer is, by the words of the issuer.
    package enum User: Sendable, Hashable {
        /// A user's own id.
        case id(UUID)
        /// What the issuer calls the user; 1 to 255 bytes, without control characters.
        case subject(ExactText)
    }

    /// On whose behalf the bearer acts, by the words of the issuer.
    package enum Organization: Sendable, Hashable {
        /// An organization's own id.
        case id(UUID)
        /// What the issuer calls the organizations that the bearer may act for: 1 to ``IdentityPlaces/maximumNames``
        /// names of 1 to 255 bytes, each once.
        case names([ExactText])
    }

    /// The issuer as it is configured: ``TrustedIssuer/issuer``.
    package let issuer: ExactText?
    /// Whose words they are: see ``TrustedIssuer/namespace``.
    package let namespace: ExactText
    package let organization: Organization
    package let user: User
    /// What names of organizations may refer to; ids have been checked.
    package let covered: TrustedIssuer.Organizations
    /// When the token expires, in seconds since 1970; from then on it is refused, after the configured leeway.
    package let expiresAt: Int64
}
