package import FoundationEssentials
import HTTPTypes
import JSONText
package import Logging
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

/// Determines how a request with a verified token would be answered, by the same steps; changes nothing.
package struct AuthorizationDryRun: Sendable {
    package enum Verdict: Sendable {
        /// The request is this user's.
        case user(UUID)
        /// The subject is new, and a user is created at its first request.
        case newcomer
        case refused(Problem)
    }

    private let authenticator: Authenticator

    /// - Parameter verifier: any; the inquiry is about tokens that have been verified.
    package init(store: Store, verifier: TokenVerifier, now: @escaping TimeSource, logger: Logger) {
        authenticator = Authenticator(
            verifier: verifier,
            catalog: store.catalog,
            identities: store.identities,
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

/// Which organization a request is for: the token's, or of several that it names the one that
/// `X-Sluice-Organization` names. The header never adds one.
package enum OrganizationChoice: Equatable {
    case id(UUID)
    /// The issuer's name for it.
    case name(ByteExactString)

    /// - Parameter chosen: the header: a name from the token, percent-encoded if it is not ASCII or has a `%`, or the
    ///   organization's id if the token contains ids.
    /// - Throws: `organization_unknown`, with the same text for everything that the token does not name.
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
    /// The same whether there is no such organization, or the token's issuer does not speak for it, or it is going.
    package static var unknownOrganization: Problem {
        Problem(.organizationUnknown, "The organization of this token is unknown.")
    }
}
