import Foundation
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// With guessed ids, no user can see or change data of another user or tenant.
@Suite struct IsolationTests {
    /// Ada's data, and one of her mutations that waits.
    private struct Secrets {
        let fixture: TwoTenantFixture
        let local = UUID()
        let create: Draft
        let server: String
        let feed: String

        init(_ settings: String = "{}", type: String? = nil) async throws {
            fixture = try await TwoTenantFixture(settings)
            if let type { _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/task", type) }
            create = fixture.ada.create("task", local: local, #"{"title":"top secret"}"#)
            let reply = try await fixture.ada.push([create])
            server = try #require(reply.results[0]["server_id"]?.string)
            feed = try #require(reply.json?["feed"]?.string)
        }

        var others: [SyncWorker] { [fixture.bob, fixture.eve] }

        /// Expects that Ada's mutation and entity are unchanged.
        func expectUntouched(sourceLocation: SourceLocation = #_sourceLocation) async throws {
            let page = try await fixture.ada.get("/v1/changes")
            let entity = page.changes.first { $0["id"]?.string == server }
            #expect(entity?["version"]?.int64 == 1, sourceLocation: sourceLocation)
            #expect(entity?["document"]?.text == #"{"title":"top secret"}"#, sourceLocation: sourceLocation)
            let mutations = try await fixture.ada.get("/v1/mutations").mutations
            #expect(mutations.map { $0["id"]?.string } == [create.id], sourceLocation: sourceLocation)
        }
    }

    /// A response without the parts that differ in every request.
    private static func bland(_ reply: Reply, _ ids: String...) -> String {
        ids.reduce(reply.text.replacingOccurrences(of: reply.header("x-request-id").first ?? "-", with: "ID")) {
            $0.replacingOccurrences(of: $1, with: "ID")
        }
    }

    @Test func `a guessed mutation is answered like a missing mutation`() async throws {
        let secrets = try await Secrets()
        let unknown = UUID().lowercased
        for other in secrets.others {
            let guessed = try await other.get("/v1/mutations/\(secrets.create.id)?wait=1")
            expectProblem(guessed, .notFound, errors: [])
            let missing = try await other.get("/v1/mutations/\(unknown)?wait=1")
            #expect(Self.bland(guessed) == Self.bland(missing))
            #expect(try await other.get("/v1/mutations").text == #"{"mutations":[],"next":null}"#)
            let device = secrets.fixture.ada.device.lowercased
            #expect(try await other.get("/v1/mutations?device_id=\(device)").mutations.isEmpty)
        }
    }

    @Test func `a guessed client id has no mapping`() async throws {
        let secrets = try await Secrets()
        for other in secrets.others {
            for ids in [secrets.local.quoted, #""\#(secrets.server)""#] {
                let reply = try await other.post("/v1/id-mappings/lookup", #"{"client_ids":[\#(ids)]}"#)
                #expect(reply.text == #"{"id_mappings":[]}"#)
            }
        }
    }

    @Test func `a list cursor of another user shows only the caller's mutations`() async throws {
        let secrets = try await Secrets()
        _ = try await secrets.fixture.ada.push([secrets.fixture.ada.create()])
        let cursor = try #require(try await secrets.fixture.ada.get("/v1/mutations?limit=1").next)
        for other in secrets.others {
            let own = [other.create(), other.create(), other.create()]
            _ = try await other.push(own)
            let page = try await other.get("/v1/mutations?cursor=\(cursor)").mutations
            #expect(page.map { $0["id"]?.string } == own[1...].map(\.id))
        }
    }

    @Test func `a feed contains only its tenant's changes and rejects another tenant's cursor`() async throws {
        let secrets = try await Secrets()
        let (bob, eve) = (secrets.fixture.bob, secrets.fixture.eve)
        #expect(try await bob.get("/v1/changes").changes.map { $0["id"]?.string } == [secrets.server])
        #expect(try await eve.get("/v1/changes").changes.isEmpty)
        #expect(try await eve.get("/v1/changes?entity_type=task").changes.isEmpty)
        let epoch = secrets.feed.split(separator: "-")[1]
        for cursor in [secrets.feed, "f1-\(epoch)-0-0-0", "f1-\(epoch)-0-9-0"] {
            let reply = try await eve.get("/v1/changes?since=\(cursor)")
            expectProblem(reply, .cursorExpired)
            #expect(reply.json?["snapshot"]?.string == "/v1/changes")
        }
    }

    @Test func `an entity of another tenant is answered like a missing entity`() async throws {
        let secrets = try await Secrets()
        let organization = secrets.fixture.eve.organization
        for operation in ["update", "replace", "delete"] {
            let eve = try await SyncWorker(secrets.fixture.gateway, organization: organization)
            let unknown = UUID().lowercased
            let guessed = eve.change(operation, server: secrets.server)
            let reply = try await eve.push([guessed])
            let missing = eve.change(operation, server: unknown)
            let other = try await eve.push([missing])
            #expect(reply.statuses == other.statuses)
            for name in ["status", "error", "response", "version"] {
                let values = [reply, other].map { $0.results[0].value(at: "/" + name)?.text ?? "-" }
                let texts = values.map {
                    $0.replacingOccurrences(of: secrets.server, with: "ID").replacingOccurrences(
                        of: unknown,
                        with: "ID"
                    )
                }
                #expect(texts[0] == texts[1], "\(operation) \(name)")
            }
        }
        try await secrets.expectUntouched()
    }

    @Test func `mutations cannot reference ids of other users`() async throws {
        let secrets = try await Secrets()
        for other in secrets.others {
            var needy = other.create()
            needy["dependency_ids"] = "[\"\(secrets.create.id)\"]"
            var needier = other.create()
            needier["dependency_ids"] = "[\(secrets.local.quoted)]"
            let local = other.draft("update", "task", ["local_id": secrets.local.quoted, "payload": "{}"])
            let reply = try await other.push([needy, needier, local])
            #expect(reply.statuses == ["rejected", "rejected", "rejected"])
            #expect(
                reply.results.map { $0["error"]?.errors ?? [] } == [
                    ["/mutations/0/dependency_ids/0 dependency_ids_must_exist_in_queue"],
                    ["/mutations/1/dependency_ids/0 dependency_ids_must_exist_in_queue"],
                    ["/mutations/2/local_id entity_reference_must_exist"],
                ]
            )
            let data = other.create("note", #"{"about":\#(secrets.local.quoted)}"#)
            #expect(try await other.push([data]).statuses == ["succeeded"])
            let documents = try await other.get("/v1/changes?entity_type=note").changes
            #expect(
                documents.map { $0["document"]?.text } == [#"{"about":\#(secrets.local.quoted)}"#],
                "another user's client id is only data"
            )
        }
        try await secrets.expectUntouched()
    }

    @Test func `the same ids in two queues are independent`() async throws {
        let secrets = try await Secrets()
        let fixture = secrets.fixture
        // one of the other workers is the same person, with the same phone, in the other tenant
        let twin = try await SyncWorker(fixture.gateway, organization: fixture.eve.organization, user: fixture.ada.user)
        var servers: Set<String> = [secrets.server]
        for other in secrets.others + [twin] {
            var same = secrets.create
            same["payload"] = #"{"title":"another"}"#
            let body = fixture.ada.envelope([same])
            let reply = try await other.post("/v1/mutations", body)
            #expect(reply.statuses == ["succeeded"])
            #expect(reply.results[0]["replayed"]?.bool == false)
            #expect(reply.json?["accepted_sequence"]?.int64 == 1)
            let server = try #require(reply.results[0]["server_id"]?.string)
            #expect(servers.insert(server).inserted)
            #expect(try await other.post("/v1/mutations", body).results[0]["replayed"]?.bool == true)
            let own = try await other.get("/v1/mutations/\(same.id)")
            #expect(own.json?["payload"]?.text == #"{"title":"another"}"#)
        }
        try await secrets.expectUntouched()
        let reply = try await fixture.ada.push([secrets.create])
        #expect(reply.results[0]["replayed"]?.bool == true)
        #expect(reply.results[0]["server_id"]?.string == secrets.server)
        // a repeat with different content gets a response without the first content
        var changed = secrets.create
        changed["payload"] = "{}"
        let reused = try await fixture.ada.push([changed])
        #expect(reused.results[0].errorCode == "idempotency_key_reused")
        #expect(!reused.results[0].text.contains(secrets.server))
    }

    @Test func `entities visible only to their owner do not exist for others`() async throws {
        let secrets = try await Secrets(type: #"{"visibility":"user"}"#)
        let organization = secrets.fixture.bob.organization
        for operation in ["update", "replace", "delete"] {
            let bob = try await SyncWorker(secrets.fixture.gateway, organization: organization)
            #expect(try await bob.get("/v1/changes").changes.isEmpty)
            let unknown = UUID().lowercased
            let guessed = try await bob.push([bob.change(operation, server: secrets.server, base: 1)])
            let missing = try await bob.push([bob.change(operation, server: unknown, base: 1)])
            #expect(guessed.statuses == missing.statuses)
            #expect(
                guessed.results[0]["error"]?.text.replacingOccurrences(of: secrets.server, with: "ID")
                    == missing.results[0]["error"]?.text.replacingOccurrences(of: unknown, with: "ID")
            )
        }
        try await secrets.expectUntouched()
    }

    @Test func `a conflict with an invisible entity reveals none of its content`() async throws {
        let fixture = try await TwoTenantFixture()
        let type = #"{"visibility":"user","id_space":"shared"}"#
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/diary", type)
        func entry(_ worker: SyncWorker, _ text: String) -> Draft {
            worker.draft("create", "diary", ["server_id": "7", "payload": #"{"text":"\#(text)"}"#])
        }
        #expect(try await fixture.ada.push([entry(fixture.ada, "top secret")]).statuses == ["succeeded"])
        let draft = entry(fixture.bob, "mine")
        let reply = try await fixture.bob.push([draft])
        #expect(reply.statuses == ["conflict"])
        #expect(reply.results[0].errorCode == "conflict")
        #expect(reply.results[0]["error"]?.names.contains("current") == false)
        #expect(!reply.text.contains("top secret"))
        #expect(!reply.text.contains(fixture.ada.user.lowercased))
        #expect(try await !fixture.bob.get("/v1/mutations/\(draft.id)").text.contains("top secret"))
        // in another tenant the id is free
        #expect(try await fixture.eve.push([fixture.eve.create("diary")]).statuses == ["succeeded"])
    }

    @Test func `an operator's action on one tenant does not affect another`() async throws {
        let secrets = try await Secrets()
        let fixture = secrets.fixture
        let others = "/admin/organizations/\(fixture.eve.organization.lowercased)"
        _ = try await fixture.eve.push([fixture.eve.create()])
        let changes: [(HTTPMethod, String, String?)] = [
            (.PUT, "", #"{"name":"x","settings":{"provisioning":"explicit","entity_types":"registered"}}"#),
            (.PUT, "/entity-types/task", #"{"visibility":"user"}"#),
            (.PUT, "/users/\(fixture.ada.user.lowercased)", nil),
            (.DELETE, "/users/\(fixture.ada.user.lowercased)", nil),
            (.PUT, "", #"{"status":"suspended"}"#), (.DELETE, "", nil),
        ]
        let settings = try await fixture.operate(.GET, fixture.admin).text
        for (method, path, body) in changes {
            #expect(try await fixture.operate(method, others + path, body).status < 300)
            #expect(try await fixture.operate(.GET, fixture.admin).text == settings)
            try await secrets.expectUntouched()
        }
        #expect(try await fixture.bob.get("/v1/changes").changes.count == 1)
    }
}
