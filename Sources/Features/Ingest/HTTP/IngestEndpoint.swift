import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

/// `POST /v1/ingest`: accepts events, and returns the outcome of each event.
struct IngestEndpoint: Sendable {
    let store: Store
    let bodies: BodyReader
    let limits: IntakeLimits
    /// Limits the number of bodies that are decoded concurrently, including the bodies of pushes.
    let gate: AdmissionController

    func ingest(_ exchange: Exchange, _ bearer: IngestBearer) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let limits = limits
        return try await bodies.withBody(of: exchange) { body in
            try await gate.admit(body.count, for: exchange.user) {
                let request = try await BlockingWork.readInBackground(body) { body throws(Problem) in
                    try IngestRequest(body: body, limits: limits)
                }
                return Answer(.ok, try await store.ingest.submit(request, from: bearer))
            }
        }
    }
}

/// Authenticates requests by service tokens, before their bodies are read.
struct SourceAuthenticator: Sendable {
    let tokens: ServiceTokens
    /// The authenticator of users, which also looks up organizations and enforces their quotas.
    let authenticator: Authenticator

    /// Returns an endpoint that requires a service token, and that enforces the organization's quota of requests.
    func sources(
        only endpoint: @escaping @Sendable (Exchange, IngestBearer) async throws -> Answer
    ) -> Route.Endpoint {
        { exchange in
            let bearer = try await bearer(exchange.headers)
            let organization = try await authenticator.activeOrganization(bearer.organization)
            let standInID = IngestSource.standInID(in: bearer.organization, for: bearer.source)
            var exchange = exchange
            exchange.user = LaneKey(organization: bearer.organization, user: standInID)
            try exchange.hold.assign(to: exchange.user)
            guard organization.settings.hasQuota else { return try await endpoint(exchange, bearer) }
            let caller = Caller(organization: organization, user: standInID, expiresAt: .max)
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

extension IngestAnswer: AnswerBody {
    package var expectedBytes: Int { 64 + verdicts.count * 128 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("feed", feed)
        writer.name("results")
        writer.beginArray()
        for verdict in verdicts {
            writer.beginObject()
            writer.member("event_id", verdict.eventID)
            writer.member("result", verdict.result.rawValue)
            writer.member("version", verdict.version)
            writer.member("original", verdict.original?.rawValue)
            if let problem = verdict.problem {
                writer.name("error")
                problem.write(to: &writer)
            } else {
                writer.member(null: "error")
            }
            writer.endObject()
        }
        writer.endArray()
    }
}
