package import FoundationEssentials
import HTTPTypes
import JSONText
package import Logging
package import SyncModel
package import SyncStore
package import Tokens

/// The authenticated sender of a request.
package struct Caller: Sendable {
    /// How the caller's token identified the organization.
    ///
    /// While a long request is in progress, the gateway compares these values with the current settings, because a
    /// change of the settings, or an operator, can revoke the caller's access to the organization.
    package struct TokenContext: Sendable {
        /// The name of the issuer in the settings; nil for the issuer without a name.
        package let issuer: ByteExactString?
        package let namespace: ByteExactString
        /// The issuer's name for the organization; nil if the token contains the organization's id.
        package let name: ExternalID?

        package init(_ claims: TokenClaims, name: ExternalID?) {
            issuer = claims.issuer
            namespace = claims.namespace
            self.name = name
        }
    }

    package let organization: Organization
    package let user: UUID
    /// The time at which the token expires, in seconds since 1970.
    package let expiresAt: Int64
    /// The token's context; nil for a source of events, because this gateway issued its token.
    package var tokenContext: TokenContext?

    package init(organization: Organization, user: UUID, expiresAt: Int64, tokenContext: TokenContext? = nil) {
        self.organization = organization
        self.user = user
        self.expiresAt = expiresAt
        self.tokenContext = tokenContext
    }
}

/// Determines whether a request with a verified token would be served.
///
/// The dry run takes the same steps as a real request, but changes nothing.
package struct AuthorizationDryRun: Sendable {
    package enum Verdict: Sendable {
        /// The request belongs to this user.
        case user(UUID)
        /// The subject is new. Its first request would create a user.
        case newcomer
        case refused(Problem)
    }

    private let authenticator: Authenticator

    /// - Parameter verifier: any verifier, because the tokens are already verified.
    package init(store: Store, verifier: TokenVerifier, now: @escaping TimeSource, logger: Logger) {
        authenticator = Authenticator(
            verifier: verifier,
            catalog: store.catalog,
            identities: store.identities,
            tokenGrants: store.tokenGrants,
            quotas: QuotaGate(quotas: store.quotas, logger: logger),
            now: now,
            checkInterval: .zero
        )
    }

    /// - Parameter chosen: the request's `X-Sluice-Organization`.
    /// - Returns: whether and for which user the request would be served, and the organization if it was found and is
    ///   active.
    package func verdict(
        on claims: TokenClaims,
        chosen: String?
    ) async -> (organization: Organization?, verdict: Verdict) {
        var headers = HTTPFields()
        headers[.sluiceOrganization] = chosen
        var found: Organization?
        do throws(Problem) {
            let id = try await authenticator.organization(of: claims, headers).id
            let organization = try await authenticator.activeOrganization(id)
            found = organization
            switch try await authenticator.bearer(of: claims, in: organization) {
            case .user(let user): return (found, .user(try await authenticator.owner(of: user, in: organization)))
            case .newcomer: return (found, .newcomer)
            }
        } catch {
            return (found, .refused(error))
        }
    }
}

/// The organization of a request.
///
/// The token specifies the organization. If the token contains several organizations, `X-Sluice-Organization` selects
/// one of them. The header cannot select an organization that is not in the token.
package enum OrganizationChoice: Equatable {
    case id(UUID)
    /// The issuer's name for the organization.
    case name(ByteExactString)

    /// - Parameter chosen: the value of the header. If the token contains an id, this is the id. If the token contains
    ///   names, this is one of the names, percent-encoded if the name contains `%` or is not ASCII.
    /// - Throws: `organization_unknown`, with the same text for every organization that is not in the token.
    package init(of organization: TokenClaims.Organization, chosen: String?) throws(Problem) {
        switch organization {
        case .id(let id):
            if let chosen, UUID(parsing: chosen) != id { throw Problem.unknownOrganization }
            self = .id(id)
        case .names(let names):
            if let chosen {
                guard let name = ByteExactString(percentEncoded: chosen), names.contains(name) else {
                    throw Problem.unknownOrganization
                }
                self = .name(name)
            } else if let name = names.first, names.count == 1 {
                self = .name(name)
            } else {
                throw Problem(
                    .organizationUnknown,
                    "The token contains several organizations; choose one with X-Sluice-Organization."
                )
            }
        }
    }
}

extension Problem {
    /// The organization does not exist, is being purged, or does not accept the token's issuer. The text is the same in
    /// all three cases.
    package static var unknownOrganization: Problem {
        Problem(.organizationUnknown, "The organization of this token is unknown.")
    }
}
