import HTTPTypes
import JSONText
import Logging
import Metrics
import SyncModel
import SyncStore
import Telemetry

/// Holds organizations to their quotas, and tells their callers how they stand: `RateLimit-Policy` and `RateLimit`
/// (draft-ietf-httpapi-ratelimit-headers) on every answer.
struct QuotaGate: Sendable {
    private let quotas: RequestQuotas
    private let logger: Logger
    private let ofOrganizations = Counter(label: HTTPMetrics.limited, dimensions: [("quota", "organization")])
    private let ofUsers = Counter(label: HTTPMetrics.limited, dimensions: [("quota", "user")])

    init(quotas: RequestQuotas, logger: Logger) {
        self.quotas = quotas
        self.logger = logger
    }

    /// The endpoint's answer, or 429 before it is asked.
    func answer(
        _ exchange: Exchange,
        _ caller: Caller,
        by endpoint: @Sendable (Exchange, Caller) async throws -> Answer
    ) async throws -> Answer {
        var requests: QuotaStanding?
        do {
            requests = try await quotas.admit(caller.organization)
            var answer = try await endpoint(exchange, caller)
            let fields = RateLimitFields(caller.organization.settings, [requests, answer.standing])
            fields.add(to: &answer.headers)
            return answer
        } catch {
            var refusal = Refusal(of: error)
            let standing = refusal.problem.standing
            if let standing { note(standing, caller, exchange) }
            RateLimitFields(caller.organization.settings, [requests, standing]).add(to: &refusal.headers)
            throw refusal
        }
    }

    private func note(_ standing: QuotaStanding, _ caller: Caller, _ exchange: Exchange) {
        let isUsers = standing.quota.kind == .mutations
        (isUsers ? ofUsers : ofOrganizations).increment()
        logger.debug(
            "Quota is used up",
            metadata: [
                LogKeys.requestID: .string(exchange.requestID),
                LogKeys.organization: .string(caller.organization.id.lowercased),
                LogKeys.reason: .string(isUsers ? "user" : "organization"),
            ]
        )
    }
}

/// The two header fields, structured fields (RFC 9651) both: a list of strings with parameters.
struct RateLimitFields {
    private let policy: String
    private let standing: String

    init(_ settings: OrganizationSettings, _ standings: [QuotaStanding?]) {
        policy = [settings.requestQuota, settings.mutationQuota].compactMap { $0.map(Self.item) }
            .joined(separator: ", ")
        standing = standings.compactMap { $0.map(Self.item) }.joined(separator: ", ")
    }

    func add(to fields: inout HTTPFields) {
        if !policy.isEmpty { fields[.rateLimitPolicy] = policy }
        if !standing.isEmpty { fields[.rateLimit] = standing }
    }

    /// `q` of them in `w` seconds; `qu` says of what, when it is not requests.
    private static func item(_ quota: Quota) -> String {
        let text = "\"\(quota.kind.rawValue)\";q=\(quota.limit);w=\(quota.kind.seconds)"
        return quota.kind == .requests ? text : text + ";qu=\"mutations\""
    }

    /// `r` are left, and in `t` seconds all are there again.
    private static func item(_ standing: QuotaStanding) -> String {
        "\"\(standing.quota.kind.rawValue)\";r=\(standing.left);t=\(standing.seconds)"
    }
}
