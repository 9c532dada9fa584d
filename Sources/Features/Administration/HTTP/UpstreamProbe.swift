import FoundationEssentials
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// A test request to an organization's upstream, and the response.
///
/// The request carries the credential and follows all of the upstream's settings. Its result does not affect the
/// circuit breaker, and the probe changes nothing in the organization.
struct UpstreamProbe: Sendable {
    /// The maximum number of bytes of a response that are read.
    private static let maximumBytes = 1_048_576
    /// The maximum number of bytes of a response that are shown.
    private static let excerptBytes = 2_048

    let method: String
    let url: String
    let answer: FetchAnswer
    /// The rule that would determine a mutation's outcome if the mutation got this response.
    let rule: OutcomeRule?
    /// The finding about the response to a batch; nil if the request is not a batch.
    let batch: BatchProbe.Finding?
    let milliseconds: Int64

    /// - Throws: `validation_failed` if a batch is requested and the upstream has no `batch`.
    init(
        _ request: UpstreamProbeRequest,
        of organization: UUID,
        to upstream: UpstreamSettings,
        by reader: any UpstreamReader
    ) async throws(Problem) {
        let timeout = Duration.seconds(upstream.timeoutSeconds)
        var fetch = UpstreamFetch(
            organization: organization,
            method: request.method,
            path: request.path,
            maximumBytes: Self.maximumBytes,
            timeout: timeout
        )
        var probe: BatchProbe?
        if request.isBatch {
            guard let batch = upstream.batch else {
                let detail = "the upstream has no batch; PUT its path first"
                throw Problem(.validationFailed, pointer: "/batch", rule: Rule.range, detail)
            }
            let parts = BatchProbe(organization: organization, path: request.path, timeout: timeout)
            (fetch.method, fetch.path, fetch.body) = ("POST", batch.path, parts.body)
            probe = parts
        }
        let began = ContinuousClock.now
        let answer = await reader.fetch(fetch, from: upstream)
        let took = (ContinuousClock.now - began).components
        milliseconds = took.seconds * 1_000 + took.attoseconds / 1_000_000_000_000_000
        (method, url) = (fetch.method, upstream.baseURL + UpstreamRequest.encoded(path: fetch.path))
        self.answer = answer
        rule = probe == nil ? Self.rule(about: answer, of: upstream) : nil
        batch = probe?.finding(of: answer)
    }

    private static func rule(about answer: FetchAnswer, of upstream: UpstreamSettings) -> OutcomeRule? {
        guard case .response(let response) = answer else { return nil }
        let body = response.body.flatMap { try? JSONTree(parsing: $0).root }
        return upstream.outcomeRule(status: response.status, body: body)
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("sent") { writer in
            writer.member("method", method)
            writer.member("url", url)
        }
        writeAnswer(to: &writer)
        writer.member("outcome_rule", rule?.place)
        writer.member("outcome", rule?.verdict.rawValue)
        if let batch {
            writer.member("batch") { writer in
                writer.member("supported", batch.isSupported)
                writer.member("detail", batch.detail)
            }
        } else {
            writer.member(null: "batch")
        }
        writer.member("duration_ms", milliseconds)
    }

    private func writeAnswer(to writer: inout JSONWriter) {
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
            writer.member("body_excerpt", excerpt)
            writer.member(null: "error")
        }
    }

    /// The beginning of the response's body, as text. Invalid UTF-8 is replaced by replacement characters.
    var excerpt: String? {
        guard case .response(let response) = answer, let body = response.body else { return nil }
        return String(decoding: body.prefix(Self.excerptBytes), as: UTF8.self)
    }
}

/// `POST /admin/organizations/{id}/upstream/test`: sends a test request to the organization's upstream.
struct UpstreamProbeEndpoint: Sendable {
    let catalog: Catalog
    /// The sender of requests; nil if this gateway sends no requests to upstreams.
    let probes: (any UpstreamReader)?
    let bodies: BodyReader

    func send(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        exchange.act?.markDryRun()
        let id = try exchange.uuid(at: 0)
        let request = try await bodies.withBody(of: exchange, isOptional: true) { try UpstreamProbeRequest(body: $0) }
        // the probe must use the stored settings, because the cache may lack a change that an operator has just made
        catalog.invalidate(id)
        guard let organization = try await catalog.organization(id) else { throw Refusal.notFound }
        guard let upstream = organization.upstream else {
            throw Problem(.notFound, "The organization has no upstream; PUT one first.")
        }
        guard let probes else { throw Problem(.overloaded, "This gateway does not send requests to upstreams.") }
        let probe = try await UpstreamProbe(request, of: id, to: upstream, by: probes)
        exchange.act?.record("method", probe.method)
        exchange.act?.record("path", String(request.path.prefix(255)))
        return Answer(.ok, capacity: 4_096) { probe.writeMembers(to: &$0) }
    }
}

/// The body of a test request: `{"path"?: "/…", "method"?: "GET" | "HEAD" | "OPTIONS", "batch"?: true}`.
struct UpstreamProbeRequest: Sendable {
    var path = "/"
    var method = "GET"
    /// Whether to send a batch of requests that read the path.
    var isBatch = false

    private static let table = MemberTable<Self, Never>("a probe") {
        BodyMember("path", .probePath, into: \.path)
        BodyMember("method", .text("must be GET, HEAD or OPTIONS") { methods.contains($0) }, into: \.method)
        BodyMember("batch", .bool(), into: \.isBatch)
    }

    static let methods = ["GET", "HEAD", "OPTIONS"]

    init() {}

    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    init(body: [UInt8]) throws(Problem) {
        self = try Self.table.read(body, into: Self(), isOptional: true)
    }
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
