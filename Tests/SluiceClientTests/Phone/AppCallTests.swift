import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// The calls of an app, and the states that it shows.
@Suite struct AppCallTests {
    @Test func `calls write rows without a transaction of the app`() async throws {
        let phone = try OfflinePhone()
        var kari = Contact(name: "Kari")
        #expect(try await phone.client.save(kari) != nil)
        let before = kari
        kari.name = "Kari N."
        #expect(try await phone.client.save(kari, options: Write.Options(priority: 3)) != nil)
        kari.phone = "1"
        #expect(try await phone.client.update(kari, from: before) != nil)
        let ola = Contact(name: "Ola")
        try await phone.client.insert(ola)
        try await phone.client.update(ola)
        try await phone.client.delete(ola)
        let operations = try phone.texts("SELECT operation FROM sluice_mutations ORDER BY sequence_number")
        #expect(operations == ["create", "update", "update", "create", "delete"])
        let write = try Write.update(kari, options: Write.Options(isChecked: false))
        func take(_ value: some Sendable) {}
        take(write)
    }

    @Test func `a write's order key is checked and sent`() async throws {
        let phone = try OfflinePhone()
        try await phone.client.insert(Contact(name: "Kari"), options: Write.Options(orderKey: "k\u{e5}"))
        for key in ["", "a\n", String(repeating: "k", count: 129)] {
            await #expect(throws: SluiceError.self) {
                try await phone.client.insert(Contact(name: "Ola"), options: Write.Options(orderKey: key))
            }
        }
        let batch = try #require(try phone.push())
        #expect(batch.rows.map(\.orderKey) == ["k\u{e5}"])
        // the gateway accepts it
        let gateway = try await TestGateway.start()
        let online = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        _ = try await online.write { db, client in
            let kari = Contact(name: "Kari")
            try kari.insert(db)
            return try client.enqueue(.create(kari, options: Write.Options(orderKey: "k\u{e5}")), in: db)
        }
        let status = await online.sync()
        #expect(status.failed == 0 && status.pending == 0 && status.lastError == nil, "\(status)")
    }

    @Test func `a failed write has its operation, its row and the permanent id`() throws {
        let phone = try OfflinePhone()
        var kari = Contact(name: "Kari")
        let create = try phone.create(kari)
        let id = UUID()
        try phone.answer(try phone.push(), [Told.success(create, of: id)])
        kari.name = "Kari N."
        let update = try phone.update(kari)
        try phone.answer(try phone.push(), [Told.result(update, "failed")])
        let write = try #require(try phone.pool.read { try FailedWrite.fetchAll($0) }.first)
        #expect(write.operation == .update && "\(write.operation)" == "update")
        #expect(write.serverID == .string(id.wire) && write.deviceID == nil)
        #expect(try phone.pool.read { try write.record(as: Contact.self, in: $0) } == kari)
        #expect(throws: SluiceError.self) { try phone.pool.read { try write.record(as: Visit.self, in: $0) } }
        #expect(FailedWrite.Operation("POST") == .request(method: "POST"))
    }

    @Test func `a held row has its document and the row that it waits for, and is written after a change`() throws {
        let phone = try OfflinePhone([Contact.sync, Visit.sync], "CREATE UNIQUE INDEX one_name ON contact (name)")
        let (first, second, target) = (UUID(), UUID(), UUID())
        try phone.pull(
            Told.change("contact", first, 1, ["name": "Kari"]),
            Told.change("contact", second, 1, ["name": "Kari"]),
            Told.change("visit", UUID(), 1, ["contact_id": .string(target.wire), "title": "First"])
        )
        let held = try phone.held()
        #expect(held.count == 2 && Set(held.map(\.id)).count == 2)
        #expect(held.first { $0.entityType == "contact" }?.document == ["name": "Kari"])
        #expect(held.first { $0.entityType == "visit" }?.waitsFor?.key == target.wire)
        let rest = try phone.write { db, client in
            try db.execute(sql: "DROP INDEX one_name")
            return try client.writeHeldRows(in: db)
        }
        #expect(rest.map(\.entityType) == ["visit"])
    }

    @Test func `errors have descriptions for people, and a deleted row has its own error`() throws {
        let phone = try OfflinePhone()
        let kari = Contact(name: "Kari")
        let create = try phone.create(kari)
        try phone.answer(try phone.push(), [Told.success(create, of: UUID())])
        try phone.write { db, client in try client.delete(kari, in: db) }
        #expect(throws: SluiceError.deleted(entityType: "contact", key: kari.id.wire)) {
            try phone.pool.write { try phone.client.enqueue(.update(kari), in: $0) }
        }
        #expect(SluiceError.signedOut.localizedDescription.contains("signed out"))
    }

    /// The app's own foreign keys can keep such a row visible.
    @Test func `a row that the phone created is known as deleted after a deletion or a discarded create`() throws {
        let phone = try OfflinePhone()
        let (kari, ola) = (Contact(name: "Kari"), Contact(name: "Ola"))
        try phone.create(kari)
        try phone.write { db, client in try client.delete(kari, in: db) }
        let refused = try phone.create(ola)
        try phone.write { db, client in try client.discard(refused, in: db) }
        for contact in [kari, ola] {
            #expect(throws: SluiceError.deleted(entityType: "contact", key: contact.id.wire)) {
                try phone.pool.write { try phone.client.enqueue(.update(contact), in: $0) }
            }
            let deletion = try phone.pool.write { try phone.client.enqueue(.delete(contact), in: $0) }
            #expect(deletion == nil)
        }
        #expect(throws: SluiceError.deleted(entityType: "contact", key: ola.id.wire)) {
            try phone.pool.write { try phone.client.enqueue(.create(Visit(contactID: ola.id, title: "Call")), in: $0) }
        }
        let unknown = Contact(name: "Per")
        #expect(throws: SluiceError.unknownEntity(entityType: "contact", key: unknown.id.wire)) {
            try phone.pool.write { try phone.client.enqueue(.update(unknown), in: $0) }
        }
    }

    @Test func `failed writes of a row are found by its record and key, and by the key's text in upper case`() throws {
        let phone = try OfflinePhone()
        let (kari, ola) = (Contact(name: "Kari"), Contact(name: "Ola"))
        let writes = [try phone.create(kari), try phone.create(ola)]
        try phone.answer(try phone.push(), writes.map { Told.result($0, "failed") })
        try phone.pool.read { (db) throws -> Void in
            #expect(try FailedWrite.fetchAll(db, of: Contact.self, key: kari.id).map(\.id) == [writes[0]])
            #expect(try FailedWrite.fetchAll(db, of: Visit.self, key: kari.id) == [])
            #expect(try FailedWrite.fetchAll(db, of: Contact.self, key: "Kari") == [])
            for key in [ola.id.uuidString, ola.id.wire] {
                #expect(try FailedWrite.fetchAll(db, of: "contact", key: key).map(\.id) == [writes[1]])
            }
        }
    }

    @Test func `a row whose create was discarded is deleted together with its later writes`() async throws {
        let phone = try MockPhone()
        phone.gateway.onWrite { _ in .reject(code: "validation_failed") }
        var kari = Contact(name: "Kari")
        let create = try #require(try await phone.insert(kari))
        await phone.sync()
        kari.phone = "2"
        let update = try #require(try await phone.client.update(kari))
        try await phone.client.discard(create, dependents: .keep)
        #expect(try await phone.contacts() == [kari], "the update waits")
        #expect(try await phone.client.delete(kari) == nil)
        #expect(try await phone.client.state(of: update) == .discarded)
        #expect(try await phone.contacts() == [])
        let status = await phone.sync()
        #expect(status.isComplete, "\(status)")
        #expect(try await phone.contacts() == [])
    }

    @Test func `a status stream delivers only visible changes, compared with the last delivered value`() async throws {
        let hub = StatusHub()
        var reader = hub.stream.makeAsyncIterator()
        #expect(await reader.next()?.phase == .suspended)
        let date = Date(timeIntervalSince1970: 1_000_000)
        hub.update { $0.nextAttempt = date }
        #expect(await reader.next()?.nextAttempt == date)
        // less than a second later, and then a visible change
        hub.update { $0.nextAttempt = date.addingTimeInterval(0.9) }
        hub.update { $0.pending = 1 }
        #expect(await reader.next()?.pending == 1)
        // small differences add up
        for step in 1...3 { hub.update { $0.nextAttempt = date.addingTimeInterval(0.9 + Double(step) * 0.4) } }
        #expect(await reader.next()?.nextAttempt == date.addingTimeInterval(2.1))
        // the reader has missed the value in between, and would receive an equal value again
        hub.update { $0.phase = .pulling }
        hub.update { $0.phase = .suspended }
        hub.finish()
        #expect(await reader.next() == nil)
    }

    @Test func `a blocker has its scope`() {
        #expect(SyncStatus.Blocker.queue(reason: "conflict", mutations: []).scope == .user)
        #expect(SyncStatus.Blocker.token("expired").scope == .device)
    }

    @MainActor
    @Test func `an observer follows the status and the failed writes`() async throws {
        let phone = try OfflinePhone()
        let observer = SyncObserver(phone.client)
        let write = try phone.create(Contact(name: "Kari"))
        try phone.answer(try phone.push(), [Told.result(write, "failed")])
        try await eventually("the observer has the failed write") { @MainActor in
            !observer.failedWrites.isEmpty && observer.status.failed > 0
        }
        #expect(observer.failedWrites.map(\.id) == [write] && observer.status.failed == 1)
    }
}
