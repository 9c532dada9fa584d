import Foundation
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// Determines which source brings events, before a body is read.
struct SourceAuthenticator: Sendable {
    let tokens: ServiceTokens
    /// Of users: the organizations that are served, and their quotas.
    let authenticator: Authenticator

    /// An endpoint for sources only, within their organization's quota of requests.
    func sources(
        only endpoint: @escaping @Sendable (Exchange, IngestBearer) async throws -> Answer
    ) -> Route.Endpoint {
        { exchange in
            let bearer = try await bearer(exchange.headers)
            let organization = try await authenticator.activeOrganization(bearer.organization)
            let stand = IngestSource.stand(in: bearer.organization, for: bearer.source)
            var exchange = exchange
            exchange.user = LaneKey(organization: bearer.organization, user: stand)
            try exchange.hold.assign(to: exchange.user)
            guard organization.settings.hasQuota else { return try await endpoint(exchange, bearer) }
            let caller = Caller(organization: organization, user: stand, expiresAt: .max)
            return try await authenticator.quotas.answer(exchange, caller) { exchange, _ in
                try await endpoint(exchange, bearer)
            }
        }
    }

    private func bearer(_ headers: HTTPFields) async throws -> IngestBearer {
        let text = try BearerToken.of(headers)
        guard let token = ServiceToken(parsing: text) else {
            throw BearerToken.refusal("invalid_token", "Events require a service token of the organization.")
        }
        guard let bearer = try await tokens.bearer(of: token) else {
            throw BearerToken.refusal("invalid_token", "The service token is unknown or revoked.")
        }
        if let chosen = headers[.sluiceOrganization], UUID(parsing: chosen) != bearer.organization {
            throw Problem.unknownOrganization
        }
        return bearer
    }
}
