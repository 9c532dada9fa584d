import Foundation
import JSONText
import SyncHTTP
import SyncModel
import Synchronization
import Testing

/// A push for a preview: entries, and the stored state.
private struct Draft {
    static let company = UUID(uuid: (6, 6, 6, 6, 6, 6, 0x46, 6, 0x86, 6, 6, 6, 6, 6, 6, 6))

    var entries: [String] = []
    var snapshot: PushSnapshot = {
        var snapshot = PushSnapshot()
        snapshot.isComplete = true
        return snapshot
    }()
    var entities = EntityTable()
    var upstream: UpstreamSettings? = UpstreamSettings(
        baseURL: "http://upstream.invalid/secret-base",
        credential: .bearer("s3cret"),
        headers: ["x-operator": "hidden"],
        allowedHeaders: ["content-type", "x-own"]
    )
    /// Types that are forwarded; all others are in the built-in store.
    var forwarded: Set<String> = ["contact", "company"]
    var visibility: Visibility = .user
    /// The routes of all types, JSON.
    var routes: String?
    /// Every generated id.
    let made = Made()

    final class Made: Sendable {
        private let ids = Mutex<[UUID]>([])
        var all: [UUID] { ids.withLock { $0 } }
        func next() -> UUID {
            let id = UUID()
            ids.withLock { $0.append(id) }
            return id
        }
    }

    /// Adds an entry; members are JSON text.
    mutating func add(_ operation: String, _ type: String, _ members: [String: String] = [:]) {
        let number = entries.count + 1
        let all = [
            "id": UUID().quoted, "idempotency_key": UUID().quoted, "sequence_number": "\(number)",
            "operation": #""\#(operation)""#, "entity_type": #""\#(type)""#,
            "created_at": #""2026-11-20T07:00:00.000Z""#,
        ].merging(members) { $1 }
        entries.append(
            "{" + all.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",") + "}"
        )
    }

    mutating func map(_ id: UUID, _ type: String, _ serverID: ServerID?) {
        snapshot.mappings[id, default: []].append(
            IDMapping(
                entityType: type,
                client: .id(id),
                serverID: serverID,
                status: serverID == nil ? .pending : .resolved,
                mutationID: Sample.id
            )
        )
    }

    mutating func load(_ type: String, _ id: String, version: Int64, owner: UUID, writer: Writer, etag: String? = nil) {
        var state = EntityState(
            isIntegerID: Int64(id) != nil,
            version: version,
            isDeleted: false,
            document: Array(#"{"a":1}"#.utf8),
            owner: owner,
            clientID: nil,
            lastWriter: writer,
            runBase: version - 1
        )
        state.isStored = true
        state.etag = etag
        entities.load(EntityKey(type: type, id: id), state)
    }

    private func type(_ name: String) -> EntityType {
        var type = EntityType(
            name: name,
            idSpace: .mapped,
            visibility: forwarded.contains(name) ? visibility : .organization,
            defaultPriority: 0,
            isForwarded: forwarded.contains(name),
            isInUse: true
        )
        type.routes = routes.flatMap { try? JSONTree(parsing: Array($0.utf8)).root }.map(EntityRoutes.init(stored:))
        return type
    }

    func text(isStrict: Bool = false) throws -> String {
        let list = entries.joined(separator: ",")
        let push = try PushRequest(
            body: Array(#"{"device_id":"\#(Sample.device.uuidString)","mutations":[\#(list)]}"#.utf8),
            limits: IntakeLimits()
        )
        let types = Dictionary(
            uniqueKeysWithValues: ["task", "contact", "company"].map { (ByteExactString($0), type($0)) }
        )
        let preview = try PreviewPlanner.preview(
            push,
            snapshot: snapshot,
            context: PushPlanner.Context(
                organization: Organization(
                    id: Sample.lane.organization,
                    name: "Test",
                    status: .active,
                    settings: OrganizationSettings(),
                    upstream: upstream
                ),
                types: types,
                user: Sample.lane.user,
                isStrict: isStrict,
                now: Sample.now,
                makeID: { [made] in made.next() }
            ),
            entities: entities
        )
        let text = String(decoding: preview.json(), as: UTF8.self)
        for id in made.all { #expect(!text.contains(id.uuidString.lowercased()), "\(text)") }
        for secret in ["s3cret", "hidden", "x-operator", "secret-base"] { #expect(!text.contains(secret), "\(text)") }
        return text
    }

    func results() throws -> [JSONValue] {
        let root = try JSONTree(parsing: Array(text().utf8)).root
        #expect(root.members.map { $0.map(\.name.string) } == ["accepted_sequence", "results", "id_mappings"])
        return root["results"]?.elements.map(Array.init) ?? []
    }

    /// The requests, each as `METHOD path body [unresolved]`; `-` for no request.
    func requests() throws -> [String] { try results().map(\.request) }
}

extension JSONValue {
    fileprivate var request: String {
        guard let request = self["request"], !request.isNull else { return "-" }
        let method = request["method"]?.string ?? ""
        let path = request["path"]?.string ?? ""
        return "\(method) \(path) \(request["body"]?.raw.text ?? "") \(request["unresolved_ids"]?.raw.text ?? "")"
    }

    fileprivate var headers: [String] {
        self["request"]?["headers"]?.members.map { $0.map { "\($0.name.string): \($0.value.string ?? "")" } } ?? []
    }
}

extension Sequence<UInt8> {
    fileprivate var text: String { String(decoding: Array(self), as: UTF8.self) }
}

extension UUID {
    fileprivate var text: String { uuidString.lowercased() }
    fileprivate var quoted: String { "\"\(text)\"" }
}

@Suite struct PreviewPlannerTests {
    @Test func `unresolved ids stay and are listed`() throws {
        var draft = Draft()
        let (local, company) = (Sample.local, Draft.company)
        draft.map(company, "company", nil)
        let endpoint = ["endpoint": #""/companies/\#(company.text)/contacts/{local_id}""#]
        draft.add("create", "contact", ["local_id": local.quoted, "endpoint": #""/contacts""#, "payload": "{}"])
        let payload = #"{"me":\#(local.quoted),"of":[\#(company.quoted)],"x":\#(UUID().quoted)}"#
        draft.add("update", "contact", ["local_id": local.quoted, "payload": payload].merging(endpoint) { $1 })
        draft.add("delete", "contact", ["local_id": local.quoted, "endpoint": #""/contacts/{local_id}""#])
        #expect(
            try draft.requests() == [
                "POST /contacts {} []",
                "PATCH /companies/\(company.text)/contacts/\(local.text) \(payload) [\(local.quoted),\(company.quoted)]",
                "DELETE /contacts/\(local.text) null [\(local.quoted)]",
            ]
        )
        #expect(try draft.results().map { $0["status"]?.string } == ["pending", "blocked", "blocked"])
    }

    @Test func `replaces resolved ids in place, in their form`() throws {
        var draft = Draft()
        draft.map(Sample.local, "contact", ServerID(text: "17", isInteger: true))
        draft.map(Draft.company, "company", ServerID(text: "a b", isInteger: false))
        draft.add(
            "replace",
            "contact",
            [
                "local_id": Sample.local.quoted, "endpoint": #""/c/\#(Draft.company.text)/{local_id}?q=ä""#,
                "payload": #"{"id":\#(Sample.local.quoted),"of":\#(Draft.company.quoted)}"#,
            ]
        )
        #expect(try draft.requests() == [#"PUT /c/a%20b/17?q=%C3%A4 {"id":17,"of":"a b"} []"#])
        #expect(try draft.results()[0]["server_id"]?.int64 == 17)
    }

    @Test func `sends a create's own ID unchanged`() throws {
        var draft = Draft()
        let payload = #"{"ref":\#(Sample.local.quoted)}"#
        draft.add(
            "create",
            "contact",
            ["local_id": Sample.local.quoted, "endpoint": #""/contacts/{local_id}""#, "payload": payload]
        )
        #expect(try draft.requests() == ["POST /contacts/\(Sample.local.text) \(payload) []"])
    }

    /// Temporary ids pass through results, documents and conflicts; `text()` searches for each of them.
    @Test func `never shows ids that only a push creates`() throws {
        var draft = Draft()
        let (task, other) = (UUID(), UUID())
        let stranger = Writer(user: UUID(), device: UUID())
        draft.load("task", "known", version: 5, owner: stranger.user, writer: stranger)
        let me = ["local_id": task.quoted]
        draft.add("create", "task", ["local_id": other.quoted, "payload": "{}"])
        draft.add("create", "task", me.merging(["payload": #"{"self":\#(task.quoted),"of":\#(other.quoted)}"#]) { $1 })
        draft.add("update", "task", me.merging(["payload": #"{"b":\#(other.quoted)}"#]) { $1 })
        // an edit adds a reference to another user's entity, and two conflicts then show this entity
        let known = ["server_id": #""known""#, "payload": #"{"of":\#(other.quoted)}"#]
        draft.add("update", "task", known)
        for strategy in ["server_wins", "client_wins"] {
            let more = ["base_version": "1", "conflict_resolution": #""\#(strategy)""#]
            draft.add("update", "task", known.merging(more) { $1 })
        }
        draft.add("delete", "task", me)
        draft.add("update", "task", me.merging(["payload": "{}"]) { $1 })
        let results = try draft.results()
        let statuses = [
            "succeeded", "succeeded", "succeeded", "succeeded", "discarded", "succeeded", "succeeded", "conflict",
        ]
        #expect(results.map { $0["status"]?.string } == statuses)
        #expect(draft.made.all.count >= 2)
        for index in [0, 1, 2, 6, 7] { #expect(results[index]["server_id"]?.isNull == true) }
        #expect(results.map { $0["version"]?.int64 } == [1, 1, 2, 6, 6, 7, 3, nil])
        #expect(results[4].value(at: "/error/current/document/of")?.uuid == other, "it is the client's own id")
        #expect(results[5].value(at: "/error/current_at")?.string == "/results/4/error/current")
        #expect(results[7].value(at: "/error/current/id")?.uuid == task)
        #expect(results[7].value(at: "/error/current/deleted")?.bool == true)
        #expect(try draft.text().hasSuffix(#""id_mappings":[]}"#))
    }

    @Test func `a reference to a built-in create of the batch is its client ID`() throws {
        var draft = Draft()
        let task = UUID()
        draft.add("create", "task", ["local_id": task.quoted, "payload": "{}"])
        let payload = #"{"task":\#(task.quoted)}"#
        let local = UUID()
        draft.add(
            "create",
            "contact",
            ["local_id": local.quoted, "endpoint": #""/tasks/\#(task.text)/contacts""#, "payload": payload]
        )
        #expect(
            try draft.requests() == ["-", "POST /tasks/\(task.text)/contacts \(payload) [\(task.quoted)]"]
        )
        #expect(try draft.results().map { $0["status"]?.string } == ["succeeded", "pending"])
    }

    @Test func `a request has the headers of the mutation and of the gateway`() throws {
        var draft = Draft()
        let headers = #"{"Accept-Language":"nb","X-Own":"1","Content-Type":"text/x"}"#
        let endpoint = #""/contacts/{local_id}""#
        draft.add("delete", "contact", ["server_id": "7", "endpoint": endpoint, "headers": headers])
        draft.add(
            "create",
            "contact",
            ["local_id": UUID().quoted, "endpoint": endpoint, "headers": headers, "payload": "1"]
        )
        let results = try draft.results()
        let lane = Sample.lane
        for (result, own) in zip(
            results,
            [
                ["accept-language: nb", "x-own: 1"],
                ["accept-language: nb", "content-type: text/x", "x-own: 1"],
            ]
        ) {
            #expect(result.headers.first?.hasPrefix("idempotency-key: ") == true)
            #expect(
                Array(result.headers.dropFirst()) == [
                    "x-sluice-organization: \(lane.organization.text)", "x-sluice-user: \(lane.user.text)",
                ] + own
            )
        }
    }

    @Test func `the gateway's If-Match overrides the mutation's and uses only visible entities`() throws {
        let update = [
            "server_id": "7", "endpoint": #""/contacts/7""#, "payload": "{}", "base_version": "4",
            "headers": #"{"If-Match":"theirs"}"#,
        ]
        func ifMatch(owner: UUID, _ visibility: Visibility = .user) throws -> [String] {
            var draft = Draft()
            draft.visibility = visibility
            let writer = Writer(user: owner, device: Sample.device)
            draft.load("contact", "7", version: 4, owner: owner, writer: writer, etag: "e4")
            draft.add("update", "contact", update)
            return try draft.results()[0].headers.filter { $0.hasPrefix("if-match") }
        }
        #expect(try ifMatch(owner: Sample.lane.user) == ["if-match: e4"])
        #expect(try ifMatch(owner: UUID(), .organization) == ["if-match: e4"])
        #expect(try ifMatch(owner: UUID()) == ["if-match: theirs"], "another user's state is not revealed")
    }

    @Test func `a preview returns the conflict that a forwarded mutation would meet`() throws {
        let colleague = Writer(user: UUID(), device: UUID())
        func results(_ strategy: String, base: Int, _ visibility: Visibility = .organization) throws -> [JSONValue] {
            var draft = Draft()
            draft.visibility = visibility
            draft.load("contact", "7", version: 4, owner: colleague.user, writer: colleague, etag: "e4")
            for _ in 0..<2 {
                draft.add(
                    "update",
                    "contact",
                    [
                        "server_id": "7", "endpoint": #""/contacts/7""#, "payload": #"{"n":1}"#,
                        "base_version": "\(base)", "conflict_resolution": #""\#(strategy)""#,
                    ]
                )
            }
            return try draft.results()
        }
        for base in [1, 9] {
            for strategy in ["manual", "server_wins", "client_wins"] {
                let result = try results(strategy, base: base)[0]
                #expect(result["status"]?.string == "pending", "as in the answer to a push")
                #expect(result.value(at: "/conflict/code")?.string == "conflict")
                #expect(result.value(at: "/conflict/current/version")?.int64 == 4)
                #expect(result.value(at: "/conflict/current/etag")?.string == "e4")
                #expect(result.value(at: "/conflict/current/document")?.raw.text == #"{"a":1}"#)
                #expect(result.request == (strategy == "client_wins" ? #"PATCH /contacts/7 {"n":1} []"# : "-"))
                #expect(!result.headers.contains { $0.hasPrefix("if-match") })
            }
            // a mutation that waits for another write of the entity is evaluated after it
            let waiting = try results("manual", base: base)[1]
            #expect(waiting["status"]?.string == "blocked" && waiting["conflict"]?.isNull == true)
            #expect(waiting.request == #"PATCH /contacts/7 {"n":1} []"#)
            // a private entity causes no conflict for other users
            let stranger = try results("manual", base: base, .user)[0]
            #expect(stranger["conflict"]?.isNull == true && stranger.request == #"PATCH /contacts/7 {"n":1} []"#)
        }
        let fits = try results("manual", base: 4)[0]
        #expect(fits["conflict"]?.isNull == true && fits.headers.contains("if-match: e4"))
    }

    @Test func `a mutation that is not sent has no request`() throws {
        var draft = Draft()
        let endpoint = ["endpoint": #""/contacts""#]
        draft.add("create", "task", ["local_id": UUID().quoted, "payload": "{}"])
        draft.add("create", "contact", ["local_id": UUID().quoted, "payload": "{}"])
        draft.add(
            "update",
            "contact",
            ["server_id": #""..""#, "endpoint": #""/contacts/{local_id}""#, "payload": "{}"]
        )
        draft.map(Sample.local, "contact", ServerID(text: ".", isInteger: false))
        draft.add(
            "update",
            "contact",
            ["local_id": Sample.local.quoted, "endpoint": #""/c/{local_id}""#, "payload": "{}"]
        )
        draft.add("create", "contact", ["local_id": UUID().quoted, "payload": "{}"].merging(endpoint) { $1 })
        draft.entries.append(draft.entries[4])
        let results = try draft.results()
        #expect(results.map(\.request).map { $0 == "-" } == [true, true, true, true, false, true])
        let statuses = ["succeeded", "rejected", "pending", "pending", "pending", "pending"]
        #expect(results.map { $0["status"]?.string } == statuses)
        #expect(results.map { $0["replayed"]?.bool } == [false, false, false, false, false, true])
        draft.upstream = nil
        #expect(try draft.requests() == Array(repeating: "-", count: 6), "no destination")
    }

    @Test func `a request that a route makes too large is refused before it is rendered`() throws {
        let items = Array(repeating: #"{"$":"/n"}"#, count: 500).joined(separator: ",")
        var draft = Draft()
        draft.routes = #"{"create":{"path":"/x","body":[\#(items)]}}"#
        let payload = #"{"n":"\#(String(repeating: "n", count: 17_000))"}"#
        draft.add("create", "contact", ["local_id": UUID().quoted, "payload": payload])
        #expect { try draft.text() } throws: { error in
            guard case .problem(let problem) = error as? PushRefusal else { return false }
            return problem.code == .payloadTooLarge
        }
    }

    @Test func `a preview with paths that server ids make too long is refused`() throws {
        var draft = Draft()
        draft.map(Draft.company, "company", ServerID(text: String(repeating: #"""#, count: 200), isInteger: false))
        // each id has 600 bytes in a path
        let endpoint = "/x?ids=" + Array(repeating: Draft.company.text, count: 54).joined(separator: ",")
        func add(_ count: Int) {
            for _ in 0..<count {
                draft.add("create", "contact", ["local_id": UUID().quoted, "endpoint": #""\#(endpoint)""#])
            }
        }
        add(100)
        #expect(try draft.requests().count == 100)
        add(200)
        #expect { try draft.text() } throws: { error in
            guard case .problem(let problem) = error as? PushRefusal else { return false }
            return problem.code == .payloadTooLarge
        }
    }

    @Test func `the shown key is the key that will be sent`() throws {
        var draft = Draft()
        draft.add("create", "contact", ["id": Sample.id.quoted, "local_id": UUID().quoted, "endpoint": #""/c""#])
        let key = DispatchPlanner.idempotencyKey(of: Sample().mutation, in: Sample.lane)
        #expect(try draft.results()[0].headers.first == "idempotency-key: \(key.text)")
    }

    @Test func `a strict preview is refused as the push would be`() throws {
        var draft = Draft()
        draft.add("create", "task", ["local_id": UUID().quoted, "payload": "[]"])
        #expect(throws: PushRefusal.self) { try draft.text(isStrict: true) }
        draft = Draft()
        draft.add("create", "task", ["local_id": UUID().quoted, "payload": "{}"])
        #expect(try draft.text(isStrict: true) == draft.text())
    }
}
