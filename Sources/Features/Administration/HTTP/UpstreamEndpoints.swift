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
    private static let table = UpstreamUpdate.table()

    package func writeMembers(to writer: inout JSONWriter) { Self.table.write(self, to: &writer) }
}

extension UpstreamUpdate {
    /// - Parameter rules: the limits for settings in a request's body.
    fileprivate static func table(_ rules: UpstreamRules = UpstreamRules()) -> MemberTable<Self, UpstreamRow> {
        MemberTable("an upstream") {
            BodyMember("base_url", .baseURL, into: \.baseURL).shown(\.settings.baseURL)
            BodyMember("credential", .credential(rules), into: \.credential).written { row, writer in
                // the credential's kind, never the secret
                switch row.settings.credential {
                case nil: writer.null()
                case .signed: writer.string("signed" as StaticString)
                case .bearer: writer.object { $0.member("bearer", true) }
                case .header(let name, _): writer.object { $0.member("header", name) }
                }
            }
            BodyMember("timeout_seconds", .integer(1...rules.maximumTimeout), into: \.timeoutSeconds)
                .shown(\.settings.timeoutSeconds)
            BodyMember("max_concurrency", .integer(1...1_000), into: \.maximumConcurrency)
                .shown(\.settings.maximumConcurrency)
            BodyMember("id_pointer", .idPointer, into: \.idPointer).shown(\.settings.idPointer)
            BodyMember("headers", .headers, into: \.headers).shown { RawJSON($0.settings.storedHeaders) }
            BodyMember("allowed_headers", .allowedHeaders, into: \.allowedHeaders).shown(\.settings.allowedHeaders)
            BodyMember("erase_endpoint", .eraseEndpoint, into: \.eraseEndpoint).shown(\.settings.eraseEndpoint)
            BodyMember("send_weak_etags", .bool(), into: \.sendsWeakETags).shown(\.settings.sendsWeakETags)
            BodyMember("outcomes", .outcomes, into: \.outcomes).shown { RawJSON($0.settings.outcomes.json) }
            BodyMember("requests_per_second", .requestsPerSecond, into: \.requestsPerSecond)
                .shown(\.settings.requestsPerSecond)
            BodyMember("batch", .batch, into: \.batch).shown(\.settings.batch)
            BodyMember("status", .pauseStatus, into: \.isPaused)
                .shown { $0.settings.pause == nil ? "active" : "paused" }
            BodyMember("paused_until", .pauseEnd, into: \.pausedUntil).shown(\.settings.pause?.until?.rfc3339)
            BodyMember("updated_at", shown: \.settings.changedAt.rfc3339)
        }
    }

    /// Reads the body of `PUT /admin/organizations/{id}/upstream`. No error message repeats a credential.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    package init(body: [UInt8], rules: UpstreamRules) throws(Problem) {
        self = try Self.table(rules).read(body, into: Self())
    }
}

/// The gateway's configuration that limits upstream settings.
package struct UpstreamRules: Sendable {
    /// Whether a key is configured that signs `signed` credentials.
    package var canSign: Bool
    /// The duration of a lane's lease in seconds. If a request took longer than the lease, another worker would send it
    /// again.
    package var leaseSeconds: Int

    package init(canSign: Bool = true, leaseSeconds: Int = .max) {
        self.canSign = canSign
        self.leaseSeconds = leaseSeconds
    }

    /// The longest timeout of a request, in seconds.
    var maximumTimeout: Int { max(1, min(90, leaseSeconds - 1)) }
}
