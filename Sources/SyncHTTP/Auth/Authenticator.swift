import HTTPTypes
import SyncModel
import SyncStore
import Tokens

/// Settles whose a request is, before anything of its body is read.
struct Authenticator: Sendable {
    let verifier: TokenVerifier
    let catalog: Catalog
    let now: TimeSource

    /// The caller of a request with a valid token of an organization that is served.
    func caller(_ headers: HTTPFields) async throws -> Caller {
        let claims = try claims(BearerToken.of(headers))
        guard let organization = try await catalog.organization(claims.organization) else { throw Self.unknown }
        switch organization.status {
        case .active: break
        case .suspended: throw Problem(.organizationSuspended, "The organization is suspended; ask its operator.")
        case .purging: throw Self.unknown
        }
        if organization.settings.provisioning == .explicit {
            guard try await catalog.isUserKnown(claims.user, in: organization.id) else {
                throw Problem(.userUnknown, "The user of this token is not registered with the organization.")
            }
        }
        return Caller(organization: organization, user: claims.user)
    }

    /// An endpoint that only authenticated callers reach.
    func callers(
        only endpoint: @escaping @Sendable (Exchange, Caller) async throws -> Answer
    ) -> Route.Endpoint {
        { exchange in try await endpoint(exchange, caller(exchange.headers)) }
    }

    private func claims(_ token: Substring) throws(Refusal) -> TokenClaims {
        do throws(TokenError) {
            return try verifier.verify(token, now: now().seconds)
        } catch {
            throw BearerToken.refusal("invalid_token", error.explanation)
        }
    }

    private static var unknown: Problem {
        Problem(.organizationUnknown, "The organization of this token is not known here.")
    }
}
