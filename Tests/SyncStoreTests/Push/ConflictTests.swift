import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import AdministrationFeature
@testable import SyncStore

@Suite struct ConflictTests {
    /// Two users, and an entity that the first user created and that both users have.
    private struct Fixture {
        let alice: Phone
        let bob: Phone
        let id: String

        init(_ settings: String = "{}") async throws {
            alice = try await Phone.new(settings)
            bob = Phone(alice.gateway, alice.organization)
            let answer = try await alice.push([alice.create(payload: #"{"n":1}"#)])
            id = try #require(answer.results[0].serverID)
        }

        func update(_ phone: Phone, _ payload: String, base: Int, _ strategy: String? = nil) -> Entry {
            write(phone, "update", payload, base: base, strategy)
        }

        func write(_ phone: Phone, _ operation: String, _ payload: String?, base: Int?, _ strategy: String?) -> Entry {
            var entry = phone.entry(operation, server: #""\#(id)""#, payload: payload)
            entry.extra["base_version"] = base.map(String.init)
            entry.extra["conflict_resolution"] = strategy.map { #""\#($0)""# }
            return entry
        }
    }

    @Test func `two offline edits of one version do not conflict with each other`() async throws {
        let fixture = try await Fixture()
        let answer = try await fixture.alice.push([
            fixture.update(fixture.alice, #"{"a":1}"#, base: 1), fixture.update(fixture.alice, #"{"b":1}"#, base: 1),
        ])
        #expect(answer.results.map(\.status) == ["succeeded", "succeeded"])
        let later = try await fixture.alice.push([fixture.update(fixture.alice, #"{"c":1}"#, base: 1)])
        #expect(later.results[0].status == "succeeded")
        // a writer's series of writes may begin after another user's write that the device had seen
        let bob = try await fixture.bob.push([
            fixture.update(fixture.bob, #"{"d":1}"#, base: 4), fixture.update(fixture.bob, #"{"e":1}"#, base: 4),
        ])
        #expect(bob.results.map(\.status) == ["succeeded", "succeeded"])
    }

    /// After a restore, phones may name a version that the store has not reached again.
    @Test func `a version that does not exist yet is a conflict for every writer`() async throws {
        for (operation, isOwn) in [("update", true), ("replace", false), ("delete", true)] {
            let fixture = try await Fixture()
            let phone = isOwn ? fixture.alice : fixture.bob
            let payload = operation == "delete" ? nil : #"{"x":1}"#
            let answer = try await phone.push([fixture.write(phone, operation, payload, base: 2, nil)])
            #expect(answer.results[0].status == "conflict" && answer.results[0].code == "conflict")
            let error = answer.results[0]["error"]
            #expect(error?["detail"]?.string == "base_version is 2, but the entity's version is only 1")
            #expect(error?["current"]?["version"]?.int64 == 1)
        }
        let fixture = try await Fixture()
        // this also holds if the entity's last writes are the writer's own
        let own = try await fixture.alice.push([fixture.update(fixture.alice, #"{"x":1}"#, base: 7, "server_wins")])
        #expect(own.results[0].status == "discarded" && own.results[0]["version"]?.int64 == 1)
        let won = try await fixture.alice.push([fixture.update(fixture.alice, #"{"x":1}"#, base: 7, "client_wins")])
        #expect(won.results[0].status == "succeeded" && won.results[0]["version"]?.int64 == 2)
        #expect(won.results[0]["etag"]?.isNull == true)
    }

    @Test func `an edit by another writer in between is a conflict`() async throws {
        let fixture = try await Fixture()
        try await fixture.bob.push([fixture.update(fixture.bob, #"{"bob":1}"#, base: 1)])
        let answer = try await fixture.alice.push([fixture.update(fixture.alice, #"{"alice":1}"#, base: 1)])
        #expect(answer.results[0].status == "conflict")
        #expect(answer.results[0].code == "conflict")
        let current = answer.results[0]["error"]?["current"]
        #expect(current?["version"]?.int64 == 2)
        #expect(current?["id"]?.string == fixture.id)
        #expect(current?["document"]?.text == #"{"n":1,"bob":1}"#)
    }

    @Test func `the same user on another device counts as another writer`() async throws {
        let fixture = try await Fixture()
        let tablet = Phone(fixture.alice.gateway, fixture.alice.organization, user: fixture.alice.user)
        try await tablet.push([fixture.update(tablet, #"{"t":1}"#, base: 1)])
        let answer = try await fixture.alice.push([fixture.update(fixture.alice, #"{"a":1}"#, base: 1)])
        #expect(answer.results[0].status == "conflict")
    }

    @Test func `a conflict in the middle of a batch halts the lane`() async throws {
        let fixture = try await Fixture()
        try await fixture.bob.push([fixture.update(fixture.bob, #"{"bob":1}"#, base: 1)])
        let first = fixture.alice.create()
        let conflicting = fixture.update(fixture.alice, #"{"x":1}"#, base: 1)
        let dependant = fixture.update(fixture.alice, #"{"y":1}"#, base: 1)
        let answer = try await fixture.alice.push([first, conflicting, dependant, fixture.alice.create()])
        #expect(answer.results.map(\.status) == ["succeeded", "conflict", "blocked", "pending"])
        #expect(answer.results[2].blockedBy == [conflicting.id])
        // the lane stays halted for later pushes, even from other devices
        let tablet = Phone(fixture.alice.gateway, fixture.alice.organization, user: fixture.alice.user)
        #expect(try await tablet.push([tablet.create()]).results[0].status == "pending")
        #expect(try await fixture.bob.push([fixture.bob.create()]).results[0].status == "succeeded")
        #expect(try await fixture.alice.push([conflicting]).results[0].status == "conflict")
    }

    /// A `shared` id stays the entity's id, so an app undoes a deletion by another create.
    @Test func `a create restores a shared id that the same device deleted`() async throws {
        let fixture = try await Self.shared()
        let answer = try await fixture.phone.push([fixture.write("create", #"{"n":2}"#)])
        #expect(answer.results[0].status == "succeeded" && answer.results[0]["version"]?.int64 == 3)
        let rows = try await fixture.phone.pull()
        #expect(rows.map { $0["document"]?.text } == [#"{"n":2}"#])
        #expect(rows.map { $0["deleted"]?.bool } == [false])
    }

    @Test func `a create of a shared id that another writer deleted is a conflict, which client_wins resolves`()
        async throws
    {
        for isAtOnce in [true, false] {
            let fixture = try await Self.shared()
            let tablet = Phone(fixture.phone.gateway, fixture.phone.organization, user: fixture.phone.user)
            let strategy = isAtOnce ? "client_wins" : "manual"
            let create = fixture.write("create", #"{"n":2}"#, by: tablet, strategy)
            let answer = try await tablet.push([create])
            if isAtOnce {
                #expect(answer.results[0].status == "succeeded", "\(answer.results[0].text)")
            } else {
                #expect(answer.results[0].status == "conflict")
                #expect(answer.results[0]["error"]?["detail"]?.string == "another writer deleted the entity")
                #expect(try await tablet.resolve(create.id, "client_wins")?.status == "pending")
                // the resolution is applied when the lane is processed
                return
            }
            #expect(try await tablet.pull().map { $0["document"]?.text } == [#"{"n":2}"#])
        }
    }

    private struct SharedScene {
        let phone: Phone
        func write(_ operation: String, _ payload: String?, by other: Phone? = nil, _ strategy: String? = nil) -> Entry
        {
            var entry = (other ?? phone).entry(operation, "label", server: "47", payload: payload)
            entry.extra["conflict_resolution"] = strategy.map { #""\#($0)""# }
            return entry
        }
    }

    /// A label with the shared id 47, created and deleted by the phone.
    private static func shared() async throws -> SharedScene {
        let fixture = SharedScene(phone: try await Phone.new())
        _ = try await fixture.phone.gateway.store.administration.putEntityType(
            "label",
            in: fixture.phone.organization.id,
            EntityTypeUpdate(body: Array(#"{"id_space":"shared"}"#.utf8))
        )
        let answer = try await fixture.phone.push([fixture.write("create", #"{"n":1}"#), fixture.write("delete", nil)])
        #expect(answer.results.map(\.status) == ["succeeded", "succeeded"])
        return fixture
    }

    @Test func `on_conflict continue runs the remaining mutations`() async throws {
        let fixture = try await Fixture(#"{"on_conflict":"continue"}"#)
        try await fixture.bob.push([fixture.update(fixture.bob, #"{"bob":1}"#, base: 1)])
        let answer = try await fixture.alice.push([
            fixture.update(fixture.alice, #"{"x":1}"#, base: 1), fixture.update(fixture.alice, #"{"y":1}"#, base: 1),
            fixture.alice.create(),
        ])
        #expect(answer.results.map(\.status) == ["conflict", "blocked", "succeeded"])
    }

    @Test func `on_failure halt stops the remaining mutations`() async throws {
        let phone = try await Phone.new(#"{"on_failure":"halt"}"#)
        let answer = try await phone.push([phone.entry("update", server: #""none""#), phone.create()])
        #expect(answer.results.map(\.status) == ["failed", "pending"])
    }

    @Test func `server_wins discards the mutation and returns the current entity`() async throws {
        let fixture = try await Fixture()
        try await fixture.bob.push([fixture.update(fixture.bob, #"{"bob":1}"#, base: 1)])
        let loser = fixture.update(fixture.alice, #"{"x":1}"#, base: 1, "server_wins")
        let after = fixture.update(fixture.alice, #"{"y":1}"#, base: 2)
        let answer = try await fixture.alice.push([loser, after])
        // the device gets the current entity, so the discarded mutation counts as satisfied and its dependents run
        #expect(answer.results.map(\.status) == ["discarded", "succeeded"])
        #expect(answer.results[0]["resolution"]?.string == "server_wins")
        #expect(answer.results[0].code == "conflict")
        #expect(try await fixture.alice.pull().last?["document"]?.text == #"{"n":1,"bob":1,"y":1}"#)
        #expect(try await fixture.alice.push([loser]).results[0].isReplayed == true)
    }

    @Test(arguments: [
        ("update", #"{"x":1}"#, #"{"n":1,"bob":1,"x":1}"#), ("replace", #"{"x":1}"#, #"{"x":1}"#),
    ])
    func `client_wins overwrites`(_ operation: String, _ payload: String, _ expected: String) async throws {
        let fixture = try await Fixture()
        try await fixture.bob.push([fixture.update(fixture.bob, #"{"bob":1}"#, base: 1)])
        let answer = try await fixture.alice.push([
            fixture.write(fixture.alice, operation, payload, base: 1, "client_wins")
        ])
        #expect(answer.results[0].status == "succeeded")
        #expect(answer.results[0]["resolution"]?.string == "client_wins")
        #expect(answer.results[0].code == "conflict")
        #expect(answer.results[0]["version"]?.int64 == 3)
        #expect(try await fixture.alice.pull().last?["document"]?.text == expected)
    }

    @Test func `client_wins deletes, and replaces a deleted entity`() async throws {
        let fixture = try await Fixture()
        try await fixture.bob.push([fixture.update(fixture.bob, #"{"bob":1}"#, base: 1)])
        let deletion = fixture.write(fixture.alice, "delete", nil, base: 1, "client_wins")
        #expect(try await fixture.alice.push([deletion]).results[0].status == "succeeded")
        #expect(try await fixture.alice.pull().last?["deleted"]?.bool == true)
        let revival = fixture.write(fixture.bob, "replace", #"{"again":1}"#, base: 2, "client_wins")
        #expect(try await fixture.bob.push([revival]).results[0].status == "succeeded")
        #expect(try await fixture.bob.pull().last?["document"]?.text == #"{"again":1}"#)
    }

    /// A patch alone would restore only the members that it changes.
    @Test func `a patch restores a deleted entity only if its resolution has a full payload`() async throws {
        let fixture = try await Fixture()
        try await fixture.alice.push([fixture.write(fixture.alice, "delete", nil, base: 1, nil)])
        let patch = fixture.update(fixture.bob, #"{"x":1}"#, base: 1, "client_wins")
        let result = try await fixture.bob.push([patch]).results[0]
        #expect(result.status == "conflict" && result["resolution"]?.isNull == true)
        #expect(result["error"]?["current"]?["deleted"]?.bool == true)
        #expect(try await fixture.bob.pull().last?["deleted"]?.bool == true)
        let error = await #expect(throws: Problem.self) { try await fixture.bob.resolve(patch.id, "client_wins") }
        #expect(error?.code == .validationFailed && error?.errors.first?.pointer == "/payload")
        let whole = try await fixture.bob.resolve(patch.id, "client_wins", payload: #"{"n":1,"x":1}"#)
        #expect(whole?.status == "pending")
    }

    @Test func `an update of a deleted entity is a conflict, and a second delete succeeds`() async throws {
        let fixture = try await Fixture(#"{"on_conflict":"continue"}"#)
        try await fixture.alice.push([fixture.write(fixture.alice, "delete", nil, base: nil, nil)])
        let answer = try await fixture.bob.push([
            fixture.write(fixture.bob, "delete", nil, base: 1, nil),
            fixture.write(fixture.bob, "update", "{}", base: nil, nil),
            fixture.write(fixture.bob, "replace", "{}", base: nil, nil),
        ])
        #expect(answer.results.map(\.status) == ["succeeded", "conflict", "blocked"])
        #expect(answer.results[1]["error"]?["current"]?["deleted"]?.bool == true)
    }

    @Test func `a create of an existing shared ID is a conflict and never overwrites`() async throws {
        let alice = try await Phone.new(#"{"on_conflict":"continue"}"#)
        let body = Array(#"{"id_space":"shared"}"#.utf8)
        _ = try await alice.gateway.store.administration.putEntityType(
            "country",
            in: alice.organization.id,
            EntityTypeUpdate(body: body)
        )
        let bob = Phone(alice.gateway, alice.organization)
        let made = try await alice.push([alice.entry("create", "country", server: "47", payload: #"{"name":"Norway"}"#)]
        )
        #expect(made.results[0].status == "succeeded")
        #expect(made.results[0]["server_id"]?.int64 == 47)
        #expect(made["id_mappings"]?.elements?.isEmpty == true)
        for strategy in ["manual", "client_wins"] {
            var entry = bob.entry("create", "country", server: "47", payload: #"{"name":"Sweden"}"#)
            entry.extra["conflict_resolution"] = #""\#(strategy)""#
            // a conflicting create blocks the same user's next create of the entity, so each create has a new user
            let phone = Phone(bob.gateway, bob.organization)
            entry.number = phone.nextNumber()
            #expect(try await phone.push([entry]).results[0].status == "conflict")
        }
        var adopting = bob.entry("create", "country", server: "47", payload: #"{"name":"Sweden"}"#)
        adopting.extra["conflict_resolution"] = #""server_wins""#
        #expect(try await bob.push([adopting]).results[0].status == "discarded")
        #expect(try await alice.pull().last?["document"]?.text == #"{"name":"Norway"}"#)
        // a UUID in upper case and in lower case is one id
        let id = UUID()
        let upper = alice.entry("create", "country", server: #""\#(id.uuidString)""#)
        #expect(try await alice.push([upper]).results[0].serverID == id.lowercased)
        let second = alice.entry("update", "country", server: #""\#(id.lowercased)""#)
        #expect(try await alice.push([second]).results[0]["version"]?.int64 == 2)
    }

    @Test func `a private entity does not exist for other users`() async throws {
        let alice = try await Phone.new()
        let body = Array(#"{"id_space":"shared","visibility":"user"}"#.utf8)
        _ = try await alice.gateway.store.administration.putEntityType(
            "diary",
            in: alice.organization.id,
            EntityTypeUpdate(body: body)
        )
        let bob = Phone(alice.gateway, alice.organization)
        try await alice.push([alice.entry("create", "diary", server: "1", payload: #"{"secret":"s3cr3t"}"#)])
        let answer = try await bob.push([
            bob.entry("update", "diary", server: "1"), bob.entry("delete", "diary", server: "1"),
        ])
        #expect(answer.results.map(\.status) == ["failed", "blocked"])
        let other = Phone(bob.gateway, bob.organization)
        let create = try await other.push([other.entry("create", "diary", server: "1")])
        #expect(create.results[0].status == "conflict")
        #expect(create.results[0]["error"]?["current"] == nil)
        #expect(!create.text.contains("s3cr3t"))
        #expect(try await bob.pull().isEmpty)
        #expect(try await alice.pull().count == 1)
    }
}
