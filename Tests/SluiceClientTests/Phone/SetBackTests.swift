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

    /// Another phone refers to an entity whose create a restored gateway runs again.
    @Test func `a restored gateway gives an entity the id that phones have`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let proxy = try FaultyProxy(to: gateway.url.port ?? 0, rate: 0, SplitMix(state: 0))
        let mine = try await TestPhone(gateway, organization: organization, through: proxy.url)
        let theirs = try await TestPhone(gateway, organization: organization, through: proxy.url)
        let kari = Contact(name: "Kari", phone: "1")
        try await mine.create(kari)
        for phone in [mine, theirs] { await phone.sync() }
        // a conflict stops the queue
        var copy = try #require(try await theirs.contacts().first)
        copy.phone = "2"
        try await theirs.update(copy)
        await theirs.sync()
        let conflict = try #require(try await mine.update(Contact(id: kari.id, name: "Kari", phone: "3")))
        try await mine.create(Contact(name: "Ola"))
        #expect(await mine.sync().conflicts == 1)
        let backup = try await gateway.backup()
        try await mine.client.resolve(conflict, .server)
        await mine.sync()
        await theirs.sync()
        let ola = try #require(try await theirs.contacts().last)
        #expect(ola.name == "Ola")
        try await theirs.create(Visit(contactID: ola.id, title: "First"))
        await theirs.sync()
        let ids = try await theirs.contactIDs()
        try await gateway.restore(backup)
        proxy.retarget(to: gateway.url.port ?? 0)
        try await Self.expectOneVisit(to: ola, on: mine, theirs, ids)
    }

    /// The gateway loses a create, and its author has received no answer and therefore no id.
    @Test func `a restored gateway gives an entity the same id again that its author has never received`() async throws
    {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let proxy = try FaultyProxy(to: gateway.url.port ?? 0, rate: 0, SplitMix(state: 0))
        let losing = try FaultyProxy(to: gateway.url.port ?? 0, faults: [.loseAnswer], rate: 0, SplitMix(state: 0))
        let mine = try await TestPhone(gateway, organization: organization, through: losing.url)
        let theirs = try await TestPhone(gateway, organization: organization, through: proxy.url)
        try await mine.create(Contact(name: "Kari"))
        for phone in [mine, theirs] { await phone.sync() }
        let backup = try await gateway.backup()
        losing.set(rate: 1)
        try await mine.create(Contact(name: "Ola"))
        for _ in 0..<100 where try await theirs.contacts().count < 2 {
            await mine.client.syncOnce(deadline: .milliseconds(500))
            await theirs.sync()
        }
        let ola = try #require(try await theirs.contacts().last)
        #expect(ola.name == "Ola")
        try await theirs.create(Visit(contactID: ola.id, title: "First"))
        await theirs.sync()
        let ids = try await theirs.contactIDs()
        #expect(try await mine.contactIDs().count == 1)
        while losing.isBusy { try await Task.sleep(for: .milliseconds(2)) }
        try await gateway.restore(backup)
        for proxy in [proxy, losing] {
            proxy.set(rate: 0)
            proxy.retarget(to: gateway.url.port ?? 0)
        }
        try await Self.expectOneVisit(to: ola, on: mine, theirs, ids)
    }

    /// Checks that both phones show the contacts Kari and Ola, and a visit to Ola, in the end.
    ///
    /// - Parameter ids: the server ids that the contacts had before the restore.
    private static func expectOneVisit(
        to ola: Contact,
        on mine: TestPhone,
        _ theirs: TestPhone,
        _ ids: Set<String>
    ) async throws {
        // the gateway runs the waiting create some time after it has received the decision
        for _ in 0..<100 {
            for phone in [theirs, mine] { await phone.sync() }
            let hasAll = try await [mine, theirs].asyncMap { try await $0.contacts().count == 2 }
            if hasAll == [true, true] { break }
            try await Task.sleep(for: .milliseconds(50))
        }
        for phone in [mine, theirs] {
            let status = phone.client.currentStatus
            #expect(status.held == 0 && status.pending == 0 && status.failed == 0, "\(status)")
            #expect(try await phone.contacts().map(\.name) == ["Kari", "Ola"])
            #expect(try await phone.visits().map(\.title) == ["First"])
            #expect(try await phone.contactIDs() == ids)
        }
        #expect(try await theirs.visits().map(\.contactID) == [ola.id])
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

extension TestPhone {
    /// The server ids that the phone has received for contacts.
    fileprivate func contactIDs() async throws -> Set<String> {
        try await pool.read { db in
            try String.fetchSet(
                db,
                sql: "SELECT server_id FROM sluice_id_mappings WHERE entity_type = 'contact' AND server_id IS NOT NULL"
            )
        }
    }
}
