package import FoundationEssentials
package import SyncModel

/// The claims of a verified token. Only a verifier makes one from a token.
package struct TokenClaims: Sendable, Hashable {
    /// The bearer, as the issuer names them.
    package enum User: Sendable, Hashable {
        /// A user's own id.
        case id(UUID)
        /// The issuer's name of the user; 1 to 255 bytes, without control characters.
        case subject(ByteExactString)
    }

    /// The organization for which the bearer acts, as the issuer names it.
    package enum Organization: Sendable, Hashable {
        /// An organization's own id.
        case id(UUID)
        /// The issuer's names of the organizations that the bearer may act for.
        ///
        /// 1 to ``IdentityPlaces/maximumNames`` names of 1 to 255 bytes, each once.
        case names([ByteExactString])
    }

    /// The issuer as it is configured: ``TrustedIssuer/issuer``.
    package let issuer: ByteExactString?
    /// The namespace of the names: see ``TrustedIssuer/namespace``.
    package let namespace: ByteExactString
    package let organization: Organization
    package let user: User
    /// What names of organizations may refer to; ids have been checked.
    package let covered: TrustedIssuer.Organizations
    /// When the token expires, in seconds since 1970.
    ///
    /// From then on it is refused, after the configured leeway.
    package let expiresAt: Int64
}
