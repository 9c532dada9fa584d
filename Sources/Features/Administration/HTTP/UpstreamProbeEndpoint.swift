import HTTPTypes
import JSONText
import NIOCore
import SyncHTTP
import SyncModel
import SyncStore

/// `POST /admin/organizations/{id}/upstream/test`: sends a test request to the organization's upstream.
///
/// The request carries the credential and follows all rules of the upstream's settings. Its result does not count for
/// the circuit breaker, and nothing of the organization changes.
struct UpstreamProbeEndpoint: Sendable {
    /// Bytes of a response that are read.
    private static let maximumBytes = 1_048_576
    /// Bytes of it that are shown.
    private static let excerptBytes = 2_048

    let catalog: Catalog
    /// Nil if nothing is sent.
    let probes: (any UpstreamReader)?
    let bodies: BodyReader

    func send(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        exchange.act?.markDryRun()
        let id = try exchange.uuid(at: 0)
        let request = try await bodies.withBody(of: exchange, isOptional: true) { try UpstreamProbeRequest(body: $0) }
        // what an operator has just set is to be asked
        catalog.invalidate(id)
        guard let organization = try await catalog.organization(id) else { throw Refusal.notFound }
        guard let upstream = organization.upstream else {
            throw Problem(.notFound, "The organization has no upstream; PUT one first.")
        }
        guard let probes else { throw Problem(.overloaded, "This gateway does not send requests to upstreams.") }
        let fetch = UpstreamFetch(
            organization: id,
            method: request.method,
            path: request.path,
            maximumBytes: Self.maximumBytes,
            timeout: .seconds(upstream.timeoutSeconds)
        )
        let began = NIODeadline.now()
        let answer = await probes.fetch(fetch, from: upstream)
        let milliseconds = (NIODeadline.now() - began).nanoseconds / 1_000_000
        exchange.act?.record("method", request.method)
        exchange.act?.record("path", String(request.path.prefix(255)))
        let url = upstream.baseURL + UpstreamRequest.encoded(path: request.path)
        return Answer(.ok, capacity: 4_096) { writer in
            writer.member("sent") { writer in
                writer.member("method", request.method)
                writer.member("url", url)
            }
            Self.write(answer, to: &writer)
            let rule = Self.rule(about: answer, of: upstream)
            writer.member("outcome_rule", rule?.place)
            writer.member("outcome", rule?.verdict.rawValue)
            writer.member("duration_ms", milliseconds)
        }
    }

    /// The rule that would decide about the answer, if it were that to a mutation.
    private static func rule(about answer: FetchAnswer, of upstream: UpstreamSettings) -> OutcomeRule? {
        guard case .response(let response) = answer else { return nil }
        let body = response.body.flatMap { try? JSONTree(parsing: $0).root }
        return upstream.outcomeRule(status: response.status, body: body)
    }

    private static func write(_ answer: FetchAnswer, to writer: inout JSONWriter) {
        switch answer {
        case .none(let reason):
            writer.member(null: "status")
            writer.member("headers") { _ in }
            writer.member(null: "body_excerpt")
            writer.member("error", reason)
        case .response(let response):
            writer.member("status", response.status)
            writer.member("headers") { writer in
                func member(_ name: StaticString, _ value: String?) { if let value { writer.member(name, value) } }
                member("content-type", response.contentType)
                member("etag", response.etag)
                member("last-modified", response.lastModified)
                member("location", response.location.map { String($0.prefix(1_000)) })
                member("www-authenticate", response.challenge)
            }
            writer.member("body_excerpt", response.body.map { excerpt($0) })
            writer.member(null: "error")
        }
    }

    /// The beginning of a body, as text; invalid UTF-8 is shown as replacement characters.
    private static func excerpt(_ body: [UInt8]) -> String {
        String(decoding: body.prefix(excerptBytes), as: UTF8.self)
    }
}

/// The request of an upstream's test: `{"path"?: "/…", "method"?: "GET" | "HEAD" | "OPTIONS"}`.
struct UpstreamProbeRequest: Sendable {
    private(set) var path = "/"
    private(set) var method = "GET"

    private static let table = MemberTable<Self, Never>("a probe") {
        BodyMember("path", .probePath, into: \.path)
        BodyMember("method", .text("must be GET, HEAD or OPTIONS") { methods.contains($0) }, into: \.method)
    }

    private static let methods = ["GET", "HEAD", "OPTIONS"]

    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    init(body: [UInt8]) throws(Problem) {
        self = try Self.table.read(body, into: Self(), isOptional: true)
    }

    private init() {}
}

extension MemberKind<String> {
    fileprivate static var probePath: Self {
        Self { value, place, report in
            let problem = value.string.map { PathRules.problem(in: $0) } ?? "is not a text"
            if let problem { report.refuse(place.pointer, Rule.range, "path \(problem)") }
            return value.string
        }
    }
}
