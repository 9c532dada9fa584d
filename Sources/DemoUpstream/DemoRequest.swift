import Foundation
import JSONText

struct DemoRequest: Sendable {
    var method: String
    /// As in the request line, with the query if there is one.
    var target: String
    var idempotencyKey: String?
    /// `If-Match`.
    var ifMatch: String?
    /// `If-None-Match`.
    var ifNoneMatch: String?
    /// `X-Sluice-User`: the user whose mutation the gateway replays; nil for other clients of the API.
    var user: UUID?
    var body: [UInt8] = []

    /// Without the query.
    var path: Substring { target.before("?") }

    /// The value of the query's parameter, decoded; nil if it is not there.
    func parameter(_ name: String) -> String? {
        guard let query = target.firstIndex(of: "?") else { return nil }
        for pair in target[target.index(after: query)...].split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts[0] == name { return (parts.count > 1 ? String(parts[1]) : "").removingPercentEncoding }
        }
        return nil
    }

    /// Whether another request has the same method, target and body, under any conditions.
    func isRepeated(by other: DemoRequest) -> Bool {
        method == other.method && target == other.target && body == other.body
    }
}
