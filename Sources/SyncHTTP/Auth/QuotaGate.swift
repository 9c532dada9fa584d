package import HTTPTypes
import JSONText
package import Logging
import Metrics
package import SyncModel
package import SyncStore
import Telemetry

/// Applies organizations' quotas, and reports their state to callers.
///
/// Every response to a caller of an organization with quotas has the fields `RateLimit-Policy` and `RateLimit`
/// (draft-ietf-httpapi-ratelimit-headers).
package struct QuotaGate: Sendable {
    private let quotas: RequestQuotas
    private let logger: Logger
    private let ofOrganizations = Counter(label: HTTPMetrics.limited, dimensions: [("quota", "organization")])
    private let ofUsers = Counter(label: HTTPMetrics.limited, dimensions: [("quota", "user")])

    package init(quotas: RequestQuotas, logger: Logger) {
        self.quotas = quotas
        self.logger = logger
    }

    /// Returns the endpoint's response. If the organization's quota of requests is used up, the response is 429, and
    /// the endpoint is not called.
    package func answer(
        _ exchange: Exchange,
        _ caller: Caller,
        by endpoint: @Sendable (Exchange, Caller) async throws -> Answer
    ) async throws -> Answer {
        var requests: QuotaStatus?
        do {
            requests = try await quotas.admit(caller.organization)
            var answer = try await endpoint(exchange, caller)
            let fields = RateLimitFields(caller.organization.settings, [requests, answer.quotaStatus])
            fields.add(to: &answer.headers)
            return answer
        } catch {
            var refusal = Refusal(of: error)
            let status = refusal.problem.quotaStatus
            if let status, refusal.problem.code == .rateLimited { record(status, caller, exchange) }
            RateLimitFields(caller.organization.settings, [requests, status]).add(to: &refusal.headers)
            throw refusal
        }
    }

    private func record(_ status: QuotaStatus, _ caller: Caller, _ exchange: Exchange) {
        let isUsers = status.quota.kind == .mutations
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

/// The header fields `RateLimit-Policy` and `RateLimit`: lists of strings with parameters (structured fields, RFC
/// 9651).
package struct RateLimitFields {
    private let policy: String
    private let status: String

    package init(_ settings: OrganizationSettings, _ statuses: [QuotaStatus?]) {
        policy = [settings.requestQuota, settings.mutationQuota].compactMap { $0.map(Self.item) }
            .joined(separator: ", ")
        status = statuses.compactMap { $0.map(Self.item) }.joined(separator: ", ")
    }

    package func add(to fields: inout HTTPFields) {
        if !policy.isEmpty { fields[.rateLimitPolicy] = policy }
        if !status.isEmpty { fields[.rateLimit] = status }
    }

    /// Returns a quota as text: `q` units in `w` seconds. For units other than requests, the parameter `qu` names the
    /// unit.
    private static func item(_ quota: Quota) -> String {
        let text = "\"\(quota.kind.rawValue)\";q=\(quota.limit);w=\(quota.kind.seconds)"
        return quota.kind == .requests ? text : text + ";qu=\"mutations\""
    }

    /// Returns a quota's state as text: `r` remaining units, and `t` seconds until the quota is full again.
    private static func item(_ status: QuotaStatus) -> String {
        "\"\(status.quota.kind.rawValue)\";r=\(status.left);t=\(status.seconds)"
    }
}
