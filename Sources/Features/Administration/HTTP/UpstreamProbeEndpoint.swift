import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `POST /admin/organizations/{id}/upstream/test`: sends a test request to the organization's upstream.
struct UpstreamProbeEndpoint: Sendable {
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
        let probe = try await UpstreamProbe(request, of: id, to: upstream, by: probes)
        exchange.act?.record("method", probe.method)
        exchange.act?.record("path", String(request.path.prefix(255)))
        return Answer(.ok, capacity: 4_096) { probe.writeMembers(to: &$0) }
    }
}

/// The request of an upstream's test: `{"path"?: "/…", "method"?: "GET" | "HEAD" | "OPTIONS", "batch"?: true}`.
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
