import Foundation
import GRDB

@testable import SluiceClient

/// A gateway that accepts every write and has empty pages, apart from what a test changes.
final class ScriptedGateway: Sendable {
    typealias Reaction = @Sendable (VectorServer.Request) -> VectorServer.Answer?

    private struct State {
        var requests: [VectorServer.Request] = []
        var fails: @Sendable (VectorServer.Request) -> Bool = { _ in false }
        var reacts: Reaction = { _ in nil }
        var pages = 1
        var accepted: Int64 = 0
    }

    private let state: Locked<State>
    private let server: VectorServer

    var url: URL { server.url }
    var requests: [VectorServer.Request] { state.withLock { $0.requests } }

    /// Which requests get status 502.
    var fails: @Sendable (VectorServer.Request) -> Bool {
        get { state.withLock { $0.fails } }
        set { state.withLock { $0.fails = newValue } }
    }

    /// Responses that differ from the default.
    var reacts: Reaction {
        get { state.withLock { $0.reacts } }
        set { state.withLock { $0.reacts = newValue } }
    }

    /// The number of pages of a pull from the beginning.
    var pages: Int {
        get { state.withLock { $0.pages } }
        set { state.withLock { $0.pages = newValue } }
    }

    /// The watermark that registrations and pushes return.
    var accepted: Int64 {
        get { state.withLock { $0.accepted } }
        set { state.withLock { $0.accepted = newValue } }
    }

    init() throws {
        let state = Locked(State())
        self.state = state
        server = try VectorServer { request in
            let (fails, reacts) = state.withLock { state in
                state.requests.append(request)
                return (state.fails, state.reacts)
            }
            if fails(request) { return .whole(status: 502, headers: [:], body: []) }
            return reacts(request) ?? Self.answer(request, state)
        }
    }

    deinit { server.stop() }

    static func ok(_ json: JSON) -> VectorServer.Answer { .whole(status: 200, headers: [:], body: json.utf8) }

    static func problem(_ status: Int, _ code: String) -> VectorServer.Answer {
        let json: JSON = [
            "type": .string("urn:sluice:problem:\(code)"), "title": .string(code), "status": .integer(Int64(status)),
            "code": .string(code),
        ]
        return .whole(status: status, headers: [:], body: json.utf8)
    }

    private static func answer(_ request: VectorServer.Request, _ state: Locked<State>) -> VectorServer.Answer {
        switch (request.method, request.path) {
        case ("PUT", _):
            return ok(["accepted_sequence": .integer(state.withLock { $0.accepted }), "next_local_ids": [:]])
        case ("POST", "/v1/mutations"):
            let entries = (try? JSON(parsing: request.body))?["mutations"]?.array ?? []
            let results = entries.map { entry -> JSON in
                [
                    "id": entry["id"] ?? .null, "status": "succeeded", "version": 1,
                    "server_id": .string(UUID.random().wire),
                ]
            }
            let last = entries.compactMap { $0["sequence_number"]?.int64 }.max() ?? 0
            let accepted = state.withLock { state in
                state.accepted = max(state.accepted, last)
                return state.accepted
            }
            return ok(["results": .array(results), "accepted_sequence": .integer(accepted)])
        case ("GET", "/v1/changes"):
            let page = request.query["since"].flatMap { Int($0) } ?? 0
            let isUpToDate = page + 1 >= state.withLock { $0.pages }
            return ok(["changes": [], "next": .string(String(page + 1)), "up_to_date": .bool(isUpToDate)])
        case ("GET", "/v1/mutations"): return ok(["mutations": [], "next": .null])
        default: return problem(404, "not_found")
        }
    }
}

/// A phone of ``ScriptedGateway``.
final class ScriptedPhone: Sendable {
    let pool: DatabasePool
    let client: SluiceClient
    let file: String
    /// It stops with its last reference.
    let gateway: ScriptedGateway

    init(
        _ gateway: ScriptedGateway,
        _ entities: [EntitySync] = [Contact.sync, Visit.sync],
        file: String? = nil,
        configure: (inout SluiceClient.Configuration) -> Void = { _ in }
    ) throws {
        let folder = FileManager.default.temporaryDirectory
        self.gateway = gateway
        self.file = file ?? folder.appending(path: "phone-\(UUID().uuidString).sqlite").path
        pool = try DatabasePool(path: self.file)
        try DatabaseMigrator.app.migrate(pool)
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        configure(&configuration)
        client = try SluiceClient(
            database: pool,
            gateway: gateway.url,
            entities: entities,
            configuration: configuration
        ) { "token" }
    }

    @discardableResult
    func insert(_ contact: Contact = Contact(name: "Kari")) async throws -> UUID? {
        try await pool.write { [client] db in try client.insert(contact, in: db) }
    }
}

/// Waits for a condition.
func eventually(_ what: String, _ condition: @Sendable () async throws -> Bool) async throws {
    for _ in 0..<600 {
        if try await condition() { return }
        try await Task.sleep(for: .milliseconds(50))
    }
    throw SluiceError.invalid("within 30 s not so: \(what)")
}
