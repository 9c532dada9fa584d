import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import AdministrationFeature
@testable import SyncStore

/// A mutation never changes unrelated entities in the feed, and never reveals another user's entity.
@Suite struct ForeignEntityTests {
    /// Ada's contact 7, at version 2 in the feed, and a colleague.
    fileprivate struct Fixture {
        let harness: DispatcherHarness
        let ada: Phone
        let bob: Phone
        static let document = #"{"id":7,"name":"Ada's"}"#

        init(_ visibility: String, _ script: @escaping FakeUpstream.Script) async throws {
            let isReady = Shared(false)
            harness = try await DispatcherHarness(
                settings: #"{"on_conflict":"continue"}"#,
                upstream: FakeUpstream { request, seen in
                    if isReady.value { return await script(request, seen) }
                    return .status(request.method == "POST" ? 201 : 200, Fixture.document, etag: "e1")
                }
            )
            ada = harness.phone
            bob = harness.newPhone()
            let body = #"{"visibility":"\#(visibility)"}"#
            _ = try await harness.gateway.store.administration
                .putEntityType("contact", in: harness.organization.id, EntityTypeUpdate(body: Array(body.utf8)))
            let contact = UUID()
            let create = harness.create(local: contact)
            let update = harness.change("update", local: contact, payload: #"{"x":1}"#)
            try await ada.push([create, update])
            try await harness.mutation(update.id, is: .succeeded)
            isReady.value = true
        }

        func entry(
            _ phone: Phone,
            _ operation: String,
            _ id: String = "7",
            endpoint: String? = nil,
            payload: String = #"{"name":"forged"}"#,
            extra: [String: String] = [:]
        ) -> Entry {
            phone.entry(
                operation,
                "contact",
                local: operation == "create" ? UUID() : nil,
                server: operation == "create" ? nil : id,
                payload: operation == "delete" ? nil : payload,
                extra: ["endpoint": #""\#(endpoint ?? "/contacts/\(id)")""#].merging(extra) { $1 }
            )
        }

        /// Pushes an entry of a phone and waits for its end.
        func run(_ phone: Phone, _ entry: Entry) async throws -> JSONValue {
            try await phone.push([entry])
            return try await harness.mutation(entry.id, of: phone, becomes: "settled") {
                ["succeeded", "failed", "discarded", "conflict"].contains($0.status)
            }
        }

        var feed: String {
            get async throws {
                try await ada.pull().map { "\($0["version"]?.text ?? "") \($0["document"]?.text ?? "")" }.joined()
            }
        }
    }

    // MARK: - The feed cannot be forged

    @Test func `an unrelated request changes nothing of another user's entity`() async throws {
        let fixture = try await Fixture("organization") { request, _ in
            switch request.path {
            case "/missing": .status(404)
            case "/echo": .status(201, #"{"id":7,"name":"forged"}"#)
            case "/contacts/7" where request.method == "DELETE": .status(404)
            default: .status(200, "{}")
            }
        }
        let cases: [(String, String, String)] = [
            ("update", "/settings", "succeeded"), ("replace", "/contacts/77", "succeeded"),
            ("delete", "/settings/1", "succeeded"), ("delete", "/missing", "succeeded"),
            // a 404 shows at most that the path was wrong
            ("delete", "/contacts/7", "succeeded"), ("create", "/echo", "succeeded"),
        ]
        for (operation, endpoint, status) in cases {
            let result = try await fixture.run(fixture.bob, fixture.entry(fixture.bob, operation, endpoint: endpoint))
            #expect(result.status == status, "\(operation) \(endpoint)")
            #expect(result["etag"]?.isNull == true)
            // a create met an existing entity, so its result contains the version
            #expect(result["version"]?.int64 == (operation == "create" ? 2 : nil), "\(operation) \(endpoint)")
            #expect(try await fixture.feed == "2 " + Fixture.document, "\(operation) \(endpoint)")
        }
    }

    @Test func `applies another user's write if it refers to the entity`() async throws {
        let fixture = try await Fixture("organization") { request, _ in
            request.method == "DELETE" ? .status(204) : .status(204, etag: "e2")
        }
        let update = try await fixture.run(fixture.bob, fixture.entry(fixture.bob, "update"))
        #expect(update["version"]?.int64 == 3 && update["etag"]?.string == "e2")
        #expect(try await fixture.feed == #"3 {"id":7,"name":"forged"}"#)
        #expect(try await fixture.ada.pull().first?["etag"]?.string == "e2")
        let delete = try await fixture.run(fixture.bob, fixture.entry(fixture.bob, "delete"))
        #expect(delete["version"]?.int64 == 4 && delete["etag"]?.isNull == true)
        #expect(try await fixture.ada.pull().first?["deleted"]?.bool == true)
    }

    // MARK: - Private entities

    @Test(arguments: [404, 410, 403, 200, 204, 409, 412])
    func `another user's entity is answered like an ID that never existed`(_ status: Int) async throws {
        let fixture = try await Fixture("user") { request, _ in
            // the upstream does not distinguish the ids, or permits everything to all users
            let id = request.path.split(separator: "/").last ?? ""
            return .status(status, [200, 409].contains(status) ? #"{"id":\#(id),"name":"x"}"# : nil, etag: "e")
        }
        for operation in ["update", "replace", "delete"] {
            for base in [nil, 1, 2, 9] {
                for strategy in ["manual", "server_wins", "client_wins"] {
                    var extra = ["conflict_resolution": #""\#(strategy)""#]
                    extra["base_version"] = base.map(String.init)
                    var answers: [String] = []
                    for id in ["7", "1234567"] {
                        let bob = fixture.harness.newPhone()
                        let entry = fixture.entry(bob, operation, id, extra: extra)
                        let read = try await fixture.run(bob, entry)
                        var text = read.text
                        if read.status != "succeeded", read.status != "discarded" {
                            text += try await Self.settled(fixture, bob, entry)
                        }
                        #expect(try await bob.pull().isEmpty)
                        for own in [entry.id, entry.key, bob.device, bob.user].map(\.lowercased) {
                            text = text.replacingOccurrences(of: own, with: "…")
                        }
                        answers.append(text.replacing(try Regex("\\b\(id)\\b"), with: "…"))
                    }
                    #expect(answers[0] == answers[1], "\(operation) \(base ?? -1) \(strategy)")
                    #expect(!answers[0].contains("Ada's"))
                }
            }
        }
        #expect(try await fixture.feed == "2 " + Fixture.document)
    }

    /// The result of resolving it with server_wins, or of discarding it.
    private static func settled(_ fixture: Fixture, _ phone: Phone, _ entry: Entry) async throws -> String {
        let settling = fixture.harness.gateway.store.settling
        let organization = phone.organization
        if try await fixture.harness.mutation(entry.id, of: phone).status == "conflict" {
            let request = try ResolveRequest(body: Array(#"{"strategy":"server_wins"}"#.utf8), limits: IntakeLimits())
            let found = try await settling.resolve(entry.id, request, organization: organization, user: phone.user)
            return String(decoding: found?.json() ?? [], as: UTF8.self)
        }
        let request = DiscardRequest(dependants: nil)
        let found = try await settling.discard(entry.id, request, organization: organization, user: phone.user)
        return String(decoding: found?.json() ?? [], as: UTF8.self)
    }

    /// Only the creator owns an entity, even if other users sent requests about it before.
    @Test func `only a create makes a user the owner`() async throws {
        let fixture = try await Fixture("user") { request, _ in
            request.method == "POST"
                ? .status(201, #"{"id":8,"name":"Ada's second"}"#) : .status(200, #"{"id":8,"name":"early"}"#)
        }
        for operation in ["update", "replace", "delete"] {
            let result = try await fixture.run(fixture.bob, fixture.entry(fixture.bob, operation, "8"))
            #expect(result.status == "succeeded" && result["version"]?.isNull == true)
        }
        let create = try await fixture.run(fixture.ada, fixture.entry(fixture.ada, "create", endpoint: "/contacts"))
        #expect(create["version"]?.int64 == 1)
        #expect(try await fixture.ada.pull().map { $0["id"]?.int64 } == [7, 8])
        #expect(try await fixture.bob.pull().isEmpty)
    }

    // MARK: - Versions

    @Test func `a base version that another writer passed is a conflict before a request is sent`() async throws {
        let fixture = try await Fixture("organization") { _, _ in .status(200, nil, etag: "e3") }
        let sent = fixture.harness.upstream.requests.count
        let stale = ["base_version": "1"]
        let conflict = try await fixture.run(fixture.bob, fixture.entry(fixture.bob, "update", extra: stale))
        #expect(conflict.status == "conflict" && conflict.code == "conflict" && conflict.attempts == 0)
        #expect(conflict["response"]?.isNull == true && conflict["etag"]?.isNull == true)
        let current = conflict["error"]?["current"]
        #expect(current?["version"]?.int64 == 2 && current?["etag"]?.string == "e1")
        #expect(current?["document"]?.text == Fixture.document)
        for base in [1, 5] {
            let lost = try await fixture.run(
                fixture.harness.newPhone(),
                as: "delete",
                ["base_version": "\(base)", "conflict_resolution": #""server_wins""#]
            )
            #expect(lost.status == "discarded" && lost.resolution == "server_wins" && lost["version"]?.int64 == 2)
            #expect(lost["error"]?["current"]?["document"]?.text == Fixture.document && lost.attempts == 0)
        }
        #expect(fixture.harness.upstream.requests.count == sent, "nothing was sent")
        #expect(try await fixture.feed == "2 " + Fixture.document)
        // a writer that has seen the version sends its validator
        let seen = try await fixture.run(
            fixture.harness.newPhone(),
            as: "update",
            ["base_version": "2", "conflict_resolution": #""manual""#]
        )
        #expect(seen.status == "succeeded" && seen["version"]?.int64 == 3 && seen["etag"]?.string == "e3")
        #expect(fixture.harness.upstream.requests.last?.ifMatch == "e1")
        // client_wins is a new revision without a condition, with the original patch
        let won = try await fixture.run(
            fixture.harness.newPhone(),
            as: "update",
            ["base_version": "1", "conflict_resolution": #""client_wins""#]
        )
        #expect(won.status == "succeeded" && won.resolution == "client_wins" && won["revision"]?.int64 == 2)
        #expect(won.attempts == 1 && won["error"]?["current"]?["version"]?.int64 == 3)
        let last = try #require(fixture.harness.upstream.requests.last)
        #expect(last.line == "PATCH /contacts/7" && last.isUnconditional && last.text == #"{"name":"forged"}"#)
    }

    @Test func `mutations blocked by a discarded conflict continue`() async throws {
        let fixture = try await Fixture("organization") { _, _ in .status(204) }
        let bob = fixture.harness.newPhone()
        let lost = fixture.entry(
            bob,
            "update",
            extra: ["base_version": "1", "conflict_resolution": #""server_wins""#]
        )
        let next = fixture.entry(bob, "update", payload: #"{"next":1}"#)
        try await bob.push([lost, next])
        try await fixture.harness.mutation(next.id, of: bob, is: .succeeded)
        #expect(try await fixture.harness.mutation(lost.id, of: bob).status == "discarded")
        let lane = try await fixture.harness.lane(of: bob)
        #expect(lane.queue.count == 0 && lane.openCount == 0 && lane.haltedBy == nil && lane.readyAt == nil)
    }

    @Test func `a conflict found by the gateway halts the lane like any other`() async throws {
        let fixture = try await Fixture("organization") { _, _ in .status(204) }
        let body = Array(#"{"settings":{"on_conflict":"halt"}}"#.utf8)
        _ = try await fixture.harness.gateway.store.administration.put(
            fixture.harness.organization.id,
            OrganizationUpdate(body: body)
        )
        let phone = fixture.harness.newPhone()
        let conflict = fixture.entry(phone, "update", extra: ["base_version": "1"])
        let rest = fixture.entry(phone, "create", endpoint: "/contacts")
        try await phone.push([conflict, rest])
        try await fixture.harness.mutation(conflict.id, of: phone, is: .conflict)
        let lane = try await fixture.harness.restingLane(of: phone)
        #expect(lane.haltedBy == conflict.id && lane.queue.count == 1)
        // if a person chooses client_wins, the feed's document does not overwrite the upstream's
        let request = try ResolveRequest(body: Array(#"{"strategy":"client_wins"}"#.utf8), limits: IntakeLimits())
        _ = try await fixture.harness.gateway.store.settling
            .resolve(conflict.id, request, organization: phone.organization, user: phone.user)
        try await fixture.harness.mutation(conflict.id, of: phone, is: .succeeded)
        let sent = fixture.harness.upstream.requests.first { $0.user == phone.user }
        #expect(sent?.line == "PATCH /contacts/7" && sent?.text == #"{"name":"forged"}"#)
    }
}

extension ForeignEntityTests.Fixture {
    fileprivate func run(_ phone: Phone, as operation: String, _ extra: [String: String]) async throws -> JSONValue {
        try await run(phone, entry(phone, operation, extra: extra))
    }
}
