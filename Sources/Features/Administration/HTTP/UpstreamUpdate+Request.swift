import SyncHTTP
package import SyncModel

extension UpstreamUpdate {
    private static let what =
        "an upstream: base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers, allowed_headers, "
        + "erase_endpoint, send_weak_etags"

    /// Reads the body of `PUT /admin/organizations/{id}/upstream`. No detail of a problem repeats a credential.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    package init(body: [UInt8], rules: UpstreamRules) throws(Problem) {
        var update = UpstreamUpdate()
        try RequestReport.read(body, of: Self.what) { report, member, value in
            switch member {
            case "base_url": update.baseURL = report.baseURL(value)
            case "credential": update.credential = report.credential(value, rules)
            case "timeout_seconds": update.timeoutSeconds = report.int(value, 1...rules.maximumTimeout, member)
            case "max_concurrency": update.maximumConcurrency = report.int(value, 1...1_000, member)
            case "id_pointer": update.idPointer = report.idPointer(value)
            case "headers": update.headers = report.headers(value)
            case "allowed_headers": update.allowedHeaders = report.allowedHeaders(value)
            case "erase_endpoint": update.eraseEndpoint = report.eraseEndpoint(value)
            case "send_weak_etags": update.sendsWeakETags = report.flag(value, member)
            default: return false
            }
            return true
        }
        self = update
    }
}
