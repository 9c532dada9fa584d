package import Foundation
import HTTPTypes
import JSONText
package import Logging
package import SyncModel
package import SyncStore
package import Tokens

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
