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
    /// Settings and operators can revoke this access while a request lasts.
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
    /// The token's context; nil for a source of events, which has a token of this gateway.
    package var tokenContext: TokenContext?

    package init(organization: Organization, user: UUID, expiresAt: Int64, tokenContext: TokenContext? = nil) {
        self.organization = organization
        self.user = user
        self.expiresAt = expiresAt
        self.tokenContext = tokenContext
    }
}

/// Determines the response to a request with a verified token, by the steps that a real request takes. It changes
/// nothing.
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
    /// - Returns: the organization, if the checks reach it, and the verdict.
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
/// It is the token's organization. If the token contains several organizations, `X-Sluice-Organization` selects one of
/// them. The header never adds an organization.
package enum OrganizationChoice: Equatable {
    case id(UUID)
    /// The issuer's name for the organization.
    case name(ByteExactString)

    /// - Parameter chosen: the header: a name from the token, percent-encoded if it is not ASCII or has a `%`, or the
    ///   organization's id if the token contains ids.
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
    /// The problem of an organization that does not exist or is being purged, or for which the token's issuer is not
    /// accepted. All three have the same text.
    package static var unknownOrganization: Problem {
        Problem(.organizationUnknown, "The organization of this token is unknown.")
    }
}
