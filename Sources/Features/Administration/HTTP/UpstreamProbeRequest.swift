import JSONText
import SyncHTTP
import SyncModel

/// The request of an upstream's test: `{"path"?: "/…", "method"?: "GET" | "HEAD" | "OPTIONS"}`.
struct UpstreamProbeRequest: Sendable {
    private static let methods = ["GET", "HEAD", "OPTIONS"]

    private(set) var path = "/"
    private(set) var method = "GET"

    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    init(body: [UInt8]) throws(Problem) {
        guard !body.isEmpty else { return }
        var (path, method) = (path, method)
        try RequestReport.read(body, of: "a probe: path, method") { report, member, value in
            switch member {
            case "path":
                let problem = value.string.map { PathRules.problem(in: $0) } ?? "is not a text"
                if let problem { report.refuse("/path", Rule.range, "path \(problem)") }
                path = value.string ?? path
            case "method":
                method = value.string ?? ""
                if !Self.methods.contains(method) {
                    report.refuse("/method", Rule.range, "method must be GET, HEAD or OPTIONS")
                }
            default: return false
            }
            return true
        }
        (self.path, self.method) = (path, method)
    }
}
