import HTTPTypes
import JSONText
package import Logging
import Metrics
import SyncModel
package import SyncStore
import Telemetry

/// Applies organizations' quotas, and reports their state to callers: `RateLimit-Policy` and `RateLimit`
/// (draft-ietf-httpapi-ratelimit-headers) on every response.
package struct QuotaGate: Sendable {
    private let quotas: RequestQuotas
    private let logger: Logger
    private let ofOrganizations = Counter(label: HTTPMetrics.limited, dimensions: [("quota", "organization")])
    private let ofUsers = Counter(label: HTTPMetrics.limited, dimensions: [("quota", "user")])

    package init(quotas: RequestQuotas, logger: Logger) {
        self.quotas = quotas
        self.logger = logger
    }

    /// Returns the endpoint's response, or 429 without calling it.
    package func answer(
        _ exchange: Exchange,
        _ caller: Caller,
        by endpoint: @Sendable (Exchange, Caller) async throws -> Answer
    ) async throws -> Answer {
        var requests: QuotaStatus?
        do {
            requests = try await quotas.admit(caller.organization)
            var answer = try await endpoint(exchange, caller)
            let fields = RateLimitFields(caller.organization.settings, [requests, answer.standing])
            fields.add(to: &answer.headers)
            return answer
        } catch {
            var refusal = Refusal(of: error)
            let standing = refusal.problem.standing
            if let standing, refusal.problem.code == .rateLimited { record(standing, caller, exchange) }
            RateLimitFields(caller.organization.settings, [requests, standing]).add(to: &refusal.headers)
            throw refusal
        }
    }

    private func record(_ standing: QuotaStatus, _ caller: Caller, _ exchange: Exchange) {
        let isUsers = standing.quota.kind == .mutations
        (isUsers ? ofUsers : ofOrganizations).increment()
        logger.debug(
            "Quota is exhausted",
            metadata: [
                LogKeys.requestID: .string(exchange.requestID),
                LogKeys.organization: .string(caller.organization.id.lowercased),
                LogKeys.reason: .string(isUsers ? "user" : "organization"),
            ]
        )
    }
}
