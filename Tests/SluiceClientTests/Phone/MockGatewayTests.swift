import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// The gateway for apps' tests, which behaves like the real gateway and fails according to its script.
@Suite struct MockGatewayTests {
    @Test func `phones of two users show the same`() async throws {
        let mine = try MockPhone()
        let theirs = try MockPhone(mine.gateway, user: "ola")
        let kari = Contact(name: "Kari")
        try await mine.insert(kari)
        try await mine.client.insert(Visit(contactID: kari.id, title: "First"))
        #expect(await mine.sync().isComplete)
        #expect(await theirs.sync().isComplete)
        let copy = try #require(try await theirs.contacts().first)
        #expect(copy.name == "Kari" && copy.id != kari.id)
        #expect(try await theirs.visits().map(\.contactID) == [copy.id])
        try await theirs.client.delete(try #require(try await theirs.visits().first))
        await theirs.sync()
        await mine.sync()
        #expect(try await mine.visits() == [])
        #expect(mine.gateway.entities(of: "visit").map(\.isDeleted) == [true])
    }

    @Test(arguments: [
        MockGateway.Reaction.status(503, retryAfter: 1), .status(502), .cutConnection, .lostAnswer,
        .text("<html>"), .json(["hello": "world"]), .problem(status: 429, code: "rate_limited"),
    ])
    func `a write takes effect once after a failure`(_ failure: MockGateway.Reaction) async throws {
        let phone = try MockPhone()
        let write = try #require(try await phone.insert())
        phone.gateway.fail(failure, on: .push, times: 1)
        _ = await phone.client.worker.turn()
        let first = phone.client.currentStatus
        #expect(first.pending == 1 && first.failed == 0 && first.lastError != nil, "\(first)")
        #expect(await phone.sync().isComplete)
        #expect(phone.gateway.requests.count { $0.kind == .push } >= 2)
        #expect(phone.gateway.entities(of: "contact").map(\.version) == [1])
        guard case .applied(_, 1?, true) = try await phone.client.state(of: write) else {
            Issue.record("\(String(describing: try await phone.client.state(of: write)))")
            return
        }
    }

    @Test func `a request whose answer comes too late has taken effect`() async throws {
        let phone = try MockPhone { $0.totalTimeout = 1 }
        try await phone.insert()
        phone.gateway.fail(.delay(.seconds(3_600)), on: .push, times: 1)
        await phone.client.syncOnce(deadline: .seconds(2))
        #expect(phone.gateway.entities(of: "contact").count == 1)
        #expect(await phone.sync().isComplete)
        #expect(phone.gateway.entities(of: "contact").count == 1)
    }

    @Test func `rejected and failed writes are shown, corrected and accepted`() async throws {
        let phone = try MockPhone()
        phone.gateway.onWrite { _ in .reject(code: "validation_failed", detail: "no name") }
        var kari = Contact(name: "Kari")
        let create = try #require(try await phone.insert(kari))
        #expect(await phone.sync().failed == 1)
        let rejected = try #require(try await phone.pool.read { try FailedWrite.fetchAll($0) }.first)
        #expect(rejected.reason == .rejected && rejected.problem?.detail == "no name")
        phone.gateway.onWrite(nil)
        try await phone.client.retry(create)
        #expect(await phone.sync().isComplete)
        phone.gateway.onWrite { _ in .fail(status: 422, body: ["message": "too long"]) }
        kari.name = "Kari N."
        let update = try #require(try await phone.client.update(kari))
        #expect(await phone.sync().failed == 1)
        let failed = try #require(try await phone.pool.read { try FailedWrite.fetchAll($0) }.first)
        #expect(failed.response == ["status": 422, "body": ["message": "too long"]])
        try await phone.client.retry(update)
        #expect(await phone.sync().isComplete)
        #expect(phone.gateway.entities(of: "contact").map { $0.document["name"] } == ["Kari N."])
    }

    @Test(arguments: [Winner.server, .client])
    func `a conflict ends as a person decides`(_ winner: Winner) async throws {
        let phone = try MockPhone()
        var kari = Contact(name: "Kari", phone: "1")
        try await phone.insert(kari)
        await phone.sync()
        let id = try #require(phone.gateway.entities(of: "contact").first).id
        phone.gateway.put("contact", id: id, ["name": "Kari", "phone": "2"])
        kari.phone = "3"
        let edit = try #require(try await phone.client.update(kari))
        #expect(await phone.sync().conflicts == 1)
        try await phone.client.resolve(edit, winner)
        #expect(await phone.sync().isComplete)
        let shown = winner == .server ? "2" : "3"
        #expect(try await phone.contacts().map(\.phone) == [shown])
        #expect(phone.gateway.entities(of: "contact").map { $0.document["phone"] } == [.string(shown)])
    }

    /// The rules of the built-in store.
    @Test
    func `an update of a deleted entity needs the whole document, and a deletion returns the tombstone's version`()
        async throws
    {
        let gateway = MockGateway()
        let phone = try MockPhone(gateway)
        let contacts = [Contact(name: "Kari"), Contact(name: "Ola")]
        for contact in contacts { try await phone.insert(contact) }
        await phone.sync()
        for entity in gateway.entities(of: "contact") { gateway.delete("contact", id: entity.id) }
        let deletion = try #require(try await phone.client.delete(contacts[0]))
        var ola = contacts[1]
        ola.phone = "2"
        let edit = try #require(try await phone.client.update(ola))
        #expect(await phone.sync().conflicts == 1)
        guard case .applied(_, version: 2, isVisible: true) = try await phone.client.state(of: deletion) else {
            Issue.record("not the tombstone's version")
            return
        }
        // a retry is compared with the entity's version again
        try await phone.client.retry(edit)
        #expect(await phone.sync().conflicts == 1)
        // another phone has only the patch
        let other = try MockPhone(gateway)
        await other.client.syncOnce()
        try await other.client.resolve(edit, .client)
        await other.client.syncOnce()
        let write = try #require(try await other.pool.read { try FailedWrite.fetchAll($0) }.first)
        #expect(write.decisionError?.contains("validation_failed") == true)
        try await phone.client.resolve(edit, .client)
        #expect(await phone.sync().isComplete)
        let documents = gateway.entities(of: "contact").filter { !$0.isDeleted }.map(\.document)
        #expect(documents == [["name": "Ola", "phone": "2"]])
    }

    @Test(arguments: [MockGateway.DeletionRule.restrict, .cascade, .setNull, .ignore])
    func `a deletion follows the rule of the relation`(_ rule: MockGateway.DeletionRule) async throws {
        let mine = try MockPhone()
        let theirs = try MockPhone(mine.gateway, user: "ola")
        mine.gateway.relations = ["visit": ["contact_id": "contact"]]
        mine.gateway.onDelete = ["visit": ["contact_id": rule]]
        let kari = Contact(name: "Kari")
        try await mine.insert(kari)
        await mine.sync()
        await theirs.sync()
        let copy = try #require(try await theirs.contacts().first)
        try await theirs.client.insert(Visit(contactID: copy.id, title: "First"))
        #expect(await theirs.sync().isComplete)
        // only the contact, because this phone has not pulled the visit
        try await mine.client.delete(kari)
        _ = await mine.client.worker.turn()
        let contact = try #require(mine.gateway.entities(of: "contact").first)
        let visit = try #require(mine.gateway.entities(of: "visit").first)
        #expect(contact.isDeleted == (rule != .restrict))
        #expect(visit.isDeleted == (rule == .cascade))
        #expect(visit.document["contact_id"] == (rule == .setNull ? .null : contact.id))
    }

    @Test(arguments: [MockGateway.DeletionRule.restrict, .cascade, .setNull])
    func `a write that refers to a deleted entity is a conflict`(_ rule: MockGateway.DeletionRule) async throws {
        let mine = try MockPhone()
        let theirs = try MockPhone(mine.gateway, user: "ola")
        mine.gateway.relations = ["visit": ["contact_id": "contact"]]
        mine.gateway.onDelete = ["visit": ["contact_id": rule]]
        let kari = Contact(name: "Kari")
        try await mine.insert(kari)
        await mine.sync()
        await theirs.sync()
        let copy = try #require(try await theirs.contacts().first)
        try await mine.client.delete(kari)
        #expect(await mine.sync().isComplete)
        try await theirs.client.insert(Visit(contactID: copy.id, title: "First"))
        #expect(await theirs.sync().conflicts == 1)
        let write = try #require(try await theirs.pool.read { try FailedWrite.fetchConflicts($0) }.first)
        let error = try #require(write.problem?.errors.first)
        #expect(error.rule == "entity_reference_must_not_be_deleted")
        #expect(error.pointer == "/payload/contact_id")
        #expect(mine.gateway.entities(of: "visit").isEmpty)
    }

    @Test func `writes that a gateway holds are pending until the gateway runs them`() async throws {
        let phone = try MockPhone()
        phone.gateway.holdsWrites = true
        let write = try #require(try await phone.insert())
        _ = await phone.client.worker.turn()
        #expect(try await phone.client.state(of: write) == .accepted)
        phone.gateway.holdsWrites = false
        #expect(await phone.sync().isComplete)
    }

    /// The creator's phone sends entities again that the gateway lost. A colleague's rows and edits still reference
    /// them.
    @Test func `after a restore of the gateway all phones show the same, with a colleague's edit`() async throws {
        let mine = try MockPhone()
        let theirs = try MockPhone(mine.gateway, user: "ola")
        let backup = mine.gateway.backup()
        let kari = Contact(name: "Kari", phone: "1")
        try await mine.insert(kari)
        await mine.sync()
        await theirs.sync()
        mine.gateway.restore(backup)
        var copy = try #require(try await theirs.contacts().first)
        copy.phone = "2"
        let edit = try #require(try await theirs.client.update(copy))
        let visit = Visit(contactID: copy.id, title: "First")
        try await theirs.client.insert(visit)
        // the colleague's phone comes first, and its edit finds no entity
        #expect(await theirs.sync().failed == 1)
        #expect(await mine.sync().lastError == nil)
        let status = await theirs.sync()
        #expect(status.isComplete && status.lastError == nil, "\(status)")
        guard case .applied = try await theirs.client.state(of: edit) else {
            Issue.record("\(String(describing: try await theirs.client.state(of: edit)))")
            return
        }
        await mine.sync()
        #expect(try await mine.contacts() == [Contact(id: kari.id, name: "Kari", phone: "2")])
        #expect(try await theirs.contacts() == [copy])
        #expect(try await mine.visits().map(\.contactID) == [kari.id])
        #expect(try await theirs.visits() == [visit])
    }
}
