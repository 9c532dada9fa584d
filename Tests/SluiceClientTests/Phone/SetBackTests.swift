import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// A gateway that was restored from a backup, and requests all mutations above its watermark again.
@Suite struct SetBackTests {
    @Test func `open writes are sent again only after the writes before them that a restored gateway has lost`()
        async throws
    {
        let phone = try MockPhone()
        await phone.sync()
        let backup = phone.gateway.backup()
        try await phone.insert(Contact(name: "done"))
        await phone.sync()
        phone.gateway.holdsWrites = true
        let open = try #require(try await phone.insert(Contact(name: "open")))
        while try await phone.client.state(of: open) != .accepted {
            await phone.client.syncOnce(deadline: .milliseconds(100))
        }
        phone.gateway.restore(backup)
        // the app has been running all the time, so it does not register again
        let status = await phone.sync()
        #expect(status.pending == 0 && status.failed == 0 && status.lastError == nil, "\(status)")
        let names = phone.gateway.entities(of: "contact").map { $0.document["name"]?.string }
        #expect(names == ["done", "open"])
        #expect(try await phone.contacts().map(\.name) == ["done", "open"])
    }

    @Test func `a discard that a restored gateway has lost is sent again`() async throws {
        let phone = try MockPhone()
        await phone.sync()
        phone.gateway.holdsWrites = true
        let create = try #require(try await phone.insert(Contact(name: "Kari")))
        func synchronize(until expected: Outcome) async throws {
            while try await phone.client.state(of: create) != expected {
                await phone.client.syncOnce(deadline: .milliseconds(100))
            }
        }
        try await synchronize(until: .accepted)
        let backup = phone.gateway.backup()
        try await phone.client.discard(create)
        try await synchronize(until: .discarded)
        phone.gateway.restore(backup)
        await phone.client.syncOnce(deadline: .milliseconds(100))
        phone.gateway.holdsWrites = false
        let status = await phone.sync()
        #expect(status.isComplete && status.lastError == nil, "\(status)")
        #expect(try await phone.client.state(of: create) == .discarded)
        #expect(phone.gateway.entities(of: "contact").isEmpty)
        #expect(try await phone.contacts().isEmpty)
    }

    @Test func `discarded writes are not sent again after a restore`() async throws {
        let lab = try Lab()
        let kari = Contact(name: "Kari")
        let create = try #require(try lab.create(kari))
        let visit = try #require(try lab.create(Visit(contactID: kari.id, title: "First")))
        let other = try #require(try lab.create(Contact(name: "Ola")))
        let batch = try #require(try lab.batch())
        let results = [(create, "failed"), (visit, "blocked"), (other, "pending")].map { id, status -> JSON in
            ["id": .string(id.wire), "status": .string(status)]
        }
        #expect(try lab.answer(["results": .array(results), "accepted_sequence": 3], to: batch))
        try await lab.client.discard(create, dependents: .discard)
        try await lab.pool.write { try Outbox.reopen(above: 0, $0, now: Date()) }
        #expect(try #require(try lab.batch()).rows.map(\.id) == [other])
        // the phone asks the gateway about each write, because the gateway has no record of them
        let reported = Set(try lab.strings("SELECT mutation_id FROM sluice_intents"))
        #expect(reported == [create.wire, visit.wire])
    }

    /// The response to the deletion arrives after the pull that shows the entity again.
    @Test func `a deletion that a restored gateway had nothing to delete for does not hide a row that is sent again`()
        async throws
    {
        let gateway = MockGateway()
        let backup = gateway.backup()
        let (author, other) = (try MockPhone(gateway), try MockPhone(gateway, user: "ola"))
        try await author.insert(Contact(name: "Kari"))
        await author.sync()
        await other.sync()
        gateway.restore(backup)
        let kari = try #require(try await other.contacts().first)
        let deletion = try #require(try await other.client.delete(kari))
        gateway.fail(.lostAnswer, on: .push, times: 1)
        await other.client.worker.runOnce(until: .now)
        await author.sync()
        // the push fails, and the pull shows the row that the author has sent again
        gateway.fail(.status(502), on: .push, times: 1)
        await other.client.worker.runOnce(until: .now)
        #expect(try await other.contacts() == [])
        let status = await other.sync()
        #expect(status.pending == 0 && status.lastError == nil, "\(status)")
        let state = try await other.client.state(of: deletion)
        guard case .applied(_, version: nil, isVisible: true) = state else {
            Issue.record("\(String(describing: state))")
            return
        }
        #expect(gateway.entities(of: "contact").map(\.isDeleted) == [false])
        #expect(try await other.contacts().map(\.name) == ["Kari"])
        #expect(try await author.contacts().map(\.name) == ["Kari"])
    }

    /// No pull has returned the row before the gateway's restore, so only the phone's create has its name.
    @Test func `an update that restores a deleted row sends the members that only the hidden create has`() async throws
    {
        let lab = try Lab()
        var kari = Contact(name: "Kari")
        try lab.create(kari)
        #expect(try lab.succeed(try #require(try lab.batch())))
        kari.phone = "2"
        let edit = try #require(try lab.update(kari))
        let batch = try #require(try lab.batch())
        try await lab.pool.write { db in
            try Feed.markOutdated(db)
            try Feed.startOver(Feed.read(db).filter, db, now: Date())
        }
        try lab.pull([])
        #expect(try await lab.pool.read { try Contact.fetchAll($0) }.map(\.name) == ["Kari"])
        let conflict: JSON = [
            "id": .string(edit.wire), "status": "conflict",
            "error": ["code": "conflict", "current": ["deleted": true, "version": 2, "document": .null]],
        ]
        #expect(try lab.answer(["results": .array([conflict]), "accepted_sequence": 2], to: batch))
        try await lab.client.resolve(edit, .client)
        let bodies = try lab.strings("SELECT body FROM sluice_intents")
        #expect(try bodies.map { try JSON(parsing: $0)["payload"] } == [["name": "Kari", "phone": "2"]])
    }

    /// The author's phone and the gateway were restored, so the author's create is a new entity for the gateway.
    @Test func `a row whose parent got another server id keeps its values and is held`() async throws {
        let lab = try Lab()
        let (contact, visit) = (UUID.random(), JSON.string(UUID.random().wire))
        let (old, new) = (JSON.string(UUID.random().wire), JSON.string(UUID.random().wire))
        func page(_ id: JSON, _ title: String) throws {
            try lab.pull([
                [
                    "entity_type": "contact", "id": id, "client_id": .string(contact.wire), "version": 1,
                    "document": ["name": "Kari"],
                ],
                [
                    "entity_type": "visit", "id": visit, "version": 1,
                    "document": ["contact_id": old, "title": .string(title)],
                ],
            ])
        }
        try page(old, "First")
        try await lab.pool.write { db in try Feed.startOver(Feed.read(db).filter, db, now: Date()) }
        try page(new, "Second")
        let (contacts, visits, held) = try await lab.pool.read { db in
            (try Contact.fetchAll(db), try Visit.fetchAll(db), try HeldRow.fetchAll(db))
        }
        #expect(contacts.map(\.id) == [contact])
        #expect(visits.map(\.title) == ["First"] && visits.map(\.contactID) == [contact])
        #expect(held.map(\.document?["title"]) == ["Second"])
        #expect(held.map(\.waitsFor?.key) == [old.string])
        // an entity with the old id releases the row
        try lab.change("contact", old, version: 1, ["name": "Ola"])
        #expect(try await lab.pool.read { try Visit.fetchAll($0) }.map(\.title) == ["Second"])
        #expect(try await lab.pool.read { try HeldRow.fetchAll($0) } == [])
    }

    @Test func `a create that is sent again asks for the id that its entity had`() async throws {
        let lab = try Lab()
        try lab.create(Contact(name: "Kari"))
        #expect(try lab.succeed(try #require(try lab.batch())))
        let id = try #require(try lab.strings("SELECT server_id FROM sluice_id_mappings").first)
        try lab.create(Contact(name: "Ola"))
        try await lab.pool.write { try Outbox.reopen(above: 0, $0, now: Date()) }
        let rows = try #require(try lab.batch()).rows
        #expect(rows.map { $0.serverID?.text } == [id, nil])
        #expect(rows.allSatisfy { $0.entry["local_id"] != nil })
    }

    @Test func `an edit of an entity that the gateway had lost is retried once the entity is back`() async throws {
        let lab = try Lab()
        let id = UUID.random()
        try lab.change("contact", .string(id.wire), version: 1, ["name": "Kari"])
        var kari = try #require(try await lab.pool.read { try Contact.fetchOne($0) })
        kari.phone = "2"
        let edit = try #require(try lab.update(kari))
        let batch = try #require(try lab.batch())
        let result: JSON = [
            "id": .string(edit.wire), "status": "failed", "response": ["status": 404, "body": .null],
            "error": ["code": "upstream_rejected"],
        ]
        #expect(try lab.answer(["results": .array([result]), "accepted_sequence": 1], to: batch))
        // a change of another entity retries nothing
        try lab.change("contact", .string(UUID.random().wire), version: 1, ["name": "Ola"])
        #expect(try lab.strings("SELECT mutation_id FROM sluice_intents") == [])
        try lab.change("contact", .string(id.wire), version: 2, ["name": "Kari"])
        #expect(try lab.strings("SELECT action FROM sluice_intents WHERE mutation_id = '\(edit.wire)'") == ["retry"])
        #expect(try await lab.pool.read { try FailedWrite.fetchAll($0) } == [])
        #expect(try await lab.pool.read { try Contact.filter(Column("phone") != nil).fetchOne($0)?.phone } == "2")
    }
}
