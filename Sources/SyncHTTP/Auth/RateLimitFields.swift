package import HTTPTypes
import Logging
import Metrics
package import SyncModel

/// The two header fields, structured fields (RFC 9651) both: a list of strings with parameters.
package struct RateLimitFields {
    private let policy: String
    private let standing: String

    package init(_ settings: OrganizationSettings, _ standings: [QuotaStatus?]) {
        policy = [settings.requestQuota, settings.mutationQuota].compactMap { $0.map(Self.item) }
            .joined(separator: ", ")
        standing = standings.compactMap { $0.map(Self.item) }.joined(separator: ", ")
    }

    package func add(to fields: inout HTTPFields) {
        if !policy.isEmpty { fields[.rateLimitPolicy] = policy }
        if !standing.isEmpty { fields[.rateLimit] = standing }
    }

    /// `q` units in `w` seconds; `qu` names the unit if it is not requests.
    private static func item(_ quota: Quota) -> String {
        let text = "\"\(quota.kind.rawValue)\";q=\(quota.limit);w=\(quota.kind.seconds)"
        return quota.kind == .requests ? text : text + ";qu=\"mutations\""
    }

    /// `r` units are left; in `t` seconds the quota is full again.
    private static func item(_ standing: QuotaStatus) -> String {
        "\"\(standing.quota.kind.rawValue)\";r=\(standing.left);t=\(standing.seconds)"
    }
}
