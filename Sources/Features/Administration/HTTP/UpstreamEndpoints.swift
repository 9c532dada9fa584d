import HTTPTypes
package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

/// `/admin/organizations/{id}/upstream`. Responses never contain a secret.
struct UpstreamEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader
    let rules: UpstreamRules

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try .found(await store.administration.upstream(of: exchange.uuid(at: 0)))
    }

    func write(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let organization = try exchange.uuid(at: 0)
        return try await bodies.withBody(of: exchange) { body in
            let update = try UpstreamUpdate(body: body, rules: rules)
            if case .set(let isPaused) = update.isPaused { exchange.act?.record("paused", isPaused) }
            return try .written(await store.administration.putUpstream(of: organization, update))
        }
    }

    func remove(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard try await store.administration.deleteUpstream(of: exchange.uuid(at: 0)) else { throw Refusal.notFound }
        return Answer(.noContent)
    }
}

extension UpstreamRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("base_url", settings.baseURL)
        // the credential's kind, never the secret
        writer.name("credential")
        switch settings.credential {
        case nil: writer.null()
        case .signed: writer.string("signed")
        case .bearer: writer.object { $0.member("bearer", true) }
        case .header(let name, _): writer.object { $0.member("header", name) }
        }
        writer.member("timeout_seconds", settings.timeoutSeconds)
        writer.member("max_concurrency", settings.maximumConcurrency)
        writer.member("id_pointer", settings.idPointer)
        writer.member("headers", raw: settings.storedHeaders)
        writer.member("allowed_headers", settings.allowedHeaders)
        writer.member("erase_endpoint", settings.eraseEndpoint)
        writer.member("send_weak_etags", settings.sendsWeakETags)
        writer.member("outcomes", raw: settings.outcomes.json)
        writer.member("requests_per_second", settings.requestsPerSecond)
        writer.member("status", settings.pause == nil ? "active" : "paused")
        writer.member("paused_until", settings.pause?.until?.rfc3339)
        writer.member("updated_at", updatedAt.rfc3339)
    }
}

extension UpstreamUpdate {
    private static let what =
        "an upstream: base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers, allowed_headers, "
        + "erase_endpoint, send_weak_etags, outcomes, requests_per_second, status, paused_until"

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
            case "outcomes": update.outcomes = report.outcomes(value)
            case "requests_per_second": update.requestsPerSecond = report.requestsPerSecond(value)
            case "status": update.isPaused = report.pause(value)
            case "paused_until": update.pausedUntil = report.pausedUntil(value)
            default: return false
            }
            return true
        }
        self = update
    }
}

/// The gateway's configuration that limits upstream settings.
package struct UpstreamRules: Sendable {
    /// Whether there is a key to sign `signed` credentials with.
    package var canSign: Bool
    /// How long a worker holds a lane, in seconds: a longer request would be sent twice.
    package var leaseSeconds: Int

    package init(canSign: Bool, leaseSeconds: Int) {
        self.canSign = canSign
        self.leaseSeconds = leaseSeconds
    }

    /// The longest timeout of a request, in seconds.
    var maximumTimeout: Int { max(1, min(90, leaseSeconds - 1)) }
}
