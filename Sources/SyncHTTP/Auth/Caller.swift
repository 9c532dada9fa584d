package import Foundation
package import SyncModel
package import SyncStore
package import Tokens

/// The authenticated sender of a request.
package struct Caller: Sendable {
    /// Whose word a caller's organization rests on: settings and operators may take it back while a request lasts.
    package struct TokenContext: Sendable {
        /// As it is configured; nil: the one without a name.
        package let issuer: ByteExactString?
        package let namespace: ByteExactString
        /// The issuer's name for the organization; nil if the token has its id.
        package let name: ExternalID?

        package init(_ claims: TokenClaims, name: ExternalID?) {
            issuer = claims.issuer
            namespace = claims.namespace
            self.name = name
        }
    }

    package let organization: Organization
    package let user: UUID
    /// When the token expires, in seconds since 1970.
    package let expiresAt: Int64
    /// Nil for a source of events, which has a token of this gateway's.
    package var tokenContext: TokenContext?

    package init(organization: Organization, user: UUID, expiresAt: Int64, tokenContext: TokenContext? = nil) {
        self.organization = organization
        self.user = user
        self.expiresAt = expiresAt
        self.tokenContext = tokenContext
    }
}
