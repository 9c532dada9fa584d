import Foundation
import SyncModel
import SyncStore
import Tokens

/// The authenticated sender of a request.
struct Caller: Sendable {
    /// Whose word a caller's organization rests on: settings and operators may take it back while a request lasts.
    struct Voucher: Sendable {
        /// As it is configured; nil: the one without a name.
        let issuer: ExactText?
        let namespace: ExactText
        /// What the issuer calls the organization; nil where the token has its id.
        let name: ExternalID?

        init(_ claims: TokenClaims, name: ExternalID?) {
            issuer = claims.issuer
            namespace = claims.namespace
            self.name = name
        }
    }

    let organization: Organization
    let user: UUID
    /// When the token expires, in seconds since 1970.
    let expiresAt: Int64
    /// Nil for a source of events, which has a token of this gateway's.
    var voucher: Voucher?
}
