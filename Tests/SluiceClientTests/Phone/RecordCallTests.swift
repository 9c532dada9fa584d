import Foundation
import GRDB
import SluiceClient
import Testing

/// Calls that write a row together with its mutation, and settlements within an app's transaction.
@Suite struct RecordCallTests {
    private static func phone(entities: [EntitySync] = [Contact.sync, Visit.sync]) async throws -> TestPhone {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        try await gateway.register("folder", #"{"id_space":"device"}"#, in: organization)
        return try await TestPhone(gateway, organization: organization, entities: entities)
    }

    @Test func `one call writes a row and its mutation`() async throws {
        let phone = try await Self.phone(entities: [Contact.sync, Visit.sync, Folder.sync])
        let kari = Contact(name: "Kari", phone: "1")
        try await phone.write { db, client in
            try client.insert(kari, in: db)
            var folder = Folder(name: "Inbox")
            try client.insert(&folder, in: db)
            #expect(folder.id == 1)
            folder.name = "In"
            #expect(try client.save(&folder, in: db) != nil)
            var next = Folder(name: "Out")
            #expect(try client.save(&next, in: db) != nil && next.id == 2)
        }
        #expect((await phone.sync()).pending == 0)
        let edits = try await phone.write { db, client in
            var edited = kari
            edited.phone = "2"
            var other = edited
            other.name = "Kari N."
            return [
                try client.update(edited, in: db), try client.update(edited, in: db),
                try client.update(other, from: edited, options: Write.Options(priority: 10), in: db),
            ]
        }
        #expect(edits.map { $0 != nil } == [true, false, true])
        #expect((await phone.sync()).pending == 0)
        #expect(try await phone.contacts() == [Contact(id: kari.id, name: "Kari N.", phone: "2")])
        try await phone.write { db, client in _ = try client.delete(kari, in: db) }
        #expect((await phone.sync()).pending == 0)
        #expect(try await phone.contacts() == [])
        let other = try await TestPhone.another(of: phone)
        await other.sync()
        #expect(try await other.contacts() == [])
    }

    @Test func `rows older than the library are enqueued once`() async throws {
        let phone = try await Self.phone()
        let (kari, ola) = (Contact(name: "Kari"), Contact(name: "Ola"))
        try await phone.pool.write { db in
            try kari.insert(db)
            try ola.insert(db)
            try Visit(contactID: ola.id, title: "First").insert(db)
        }
        try await phone.create(Contact(name: "Per"))
        let counts = try await phone.write { db, client in
            [
                try client.enqueueUnknown(Contact.self, in: db), try client.enqueueUnknown(Visit.self, in: db),
                try client.enqueueUnknown(Contact.self, in: db),
            ]
        }
        #expect(counts == [2, 1, 0])
        #expect((await phone.sync()).pending == 0)
        let other = try await TestPhone.another(of: phone)
        await other.sync()
        #expect(try await other.contacts().map(\.name) == ["Kari", "Ola", "Per"])
        #expect(try await other.visits().map(\.title) == ["First"])
    }

    /// A table that is larger than a page, with rows that reference each other.
    @Test func `older rows are enqueued after the rows they reference`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        var migrator = DatabaseMigrator.app
        migrator.registerMigration("staff") { db in
            try db.execute(sql: "CREATE TABLE staff (id BLOB PRIMARY KEY NOT NULL, bossID BLOB, contactID BLOB)")
        }
        let phone = try await TestPhone(
            gateway,
            organization: organization,
            entities: [Staff.sync, Contact.sync],
            migrator: migrator
        )
        let ids = (0..<601).map { _ in UUID() }
        try await phone.pool.write { db in
            for (index, id) in ids.enumerated() {
                let contact = Contact(name: "\(index)")
                try contact.insert(db)
                // the last one references no row
                let boss = index + 1 < ids.count ? ids[index + 1] : nil
                try Staff(id: id, bossID: boss, contactID: contact.id).insert(db)
            }
        }
        let counts = try await phone.write { db, client in
            [
                try client.enqueueUnknown(of: [Staff.self, Contact.self], in: db),
                try client.enqueueUnknown(of: [Contact.self, Staff.self], in: db),
            ]
        }
        #expect(counts == [1_202, 0])
        #expect((await phone.sync()).pending == 0)
        // a cycle has no first row
        let (one, other) = (UUID(), UUID())
        let error = await #expect(throws: SluiceError.self) {
            try await phone.write { db, client in
                try Staff(id: one, bossID: other).insert(db)
                try Staff(id: other, bossID: one).insert(db)
                try client.enqueueUnknown(Staff.self, in: db)
            }
        }
        #expect("\(error as Any)".contains("circle"))
        // a row may reference itself
        let count = try await phone.write { db, client in
            try Staff(id: one, bossID: one).insert(db)
            return try client.enqueueUnknown(Staff.self, in: db)
        }
        #expect(count == 1)
    }

    @Test func `rejects a text key in upper case because it would return in lower case`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let sync = EntitySync("tag", table: "tag", key: .text("id"), columns: [.text("name")])
        let mapped = EntitySync("tag", table: "tag", key: .uuid("id", stored: .uppercaseText), columns: [.text("name")])
        var migrator = DatabaseMigrator()
        migrator.registerSluiceMigrations()
        migrator.registerMigration("tag") { try $0.execute(sql: "CREATE TABLE tag (id TEXT PRIMARY KEY, name TEXT)") }
        let user = UUID()
        func phone(_ sync: EntitySync) async throws -> TestPhone {
            try await TestPhone(gateway, organization: organization, user: user, entities: [sync], migrator: migrator)
        }
        let id = UUID().uuidString
        func make(_ id: String, on phone: TestPhone) async throws {
            try await phone.write { db, client in
                try Tag(id: id, name: "a").insert(db)
                try client.enqueue(.create(Tag(id: id, name: "a")), in: db)
            }
        }
        let error = await #expect(throws: SluiceError.self) { try await make(id, on: phone(sync)) }
        #expect("\(error as Any)".contains("uppercaseText"))
        try await make(UUID().uuidString.lowercased(), on: phone(sync))
        // as the error message states, the key is the same on every phone
        let (mine, next) = (try await phone(mapped), try await phone(mapped))
        try await make(id, on: mine)
        for phone in [mine, next] { await phone.sync() }
        #expect(try await next.pool.read { try String.fetchAll($0, sql: "SELECT id FROM tag") } == [id])
    }

    @Test func `a settlement is part of the app's transaction or uses its own transaction`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        var copy = try #require(try await theirs.contacts().first)
        copy.phone = "2"
        try await theirs.update(copy)
        await theirs.sync()
        var own = kari
        own.phone = "3"
        let edit = try #require(try await mine.update(own))
        own.name = "Kari N."
        let later = try #require(try await mine.update(own))
        await mine.sync()
        let conflict = try #require(try await mine.pool.read { try FailedWrite.fetchConflicts($0) }.first)
        let (version, dependents) = try await mine.pool.read { [client = mine.client] db in
            (
                try client.theirs(of: conflict, as: Contact.self, in: db),
                try client.dependents(of: edit, in: db)
            )
        }
        #expect(version == Contact(id: kari.id, name: "Kari", phone: "2"))
        #expect(dependents == [later])
        struct Changed: Error {}
        await #expect(throws: Changed.self) {
            try await mine.write { db, client in
                try client.discard(edit, dependents: .keep, in: db)
                throw Changed()
            }
        }
        #expect(try await mine.pool.read { try FailedWrite.fetchConflicts($0) }.map(\.id) == [edit])
        // a failed settlement has changed nothing in the surrounding transaction
        try await mine.write { db, client in
            #expect(throws: SluiceError.hasDependents(1)) { try client.discard(edit, in: db) }
            try client.discard(later, in: db)
            try client.resolve(edit, with: Contact(id: kari.id, name: "Kari N.", phone: "2 or 3"), in: db)
        }
        let status = await mine.sync()
        #expect(status.conflicts == 0 && status.pending == 0, "\(status)")
        #expect(try await mine.contacts() == [Contact(id: kari.id, name: "Kari N.", phone: "2 or 3")])
        await theirs.sync()
        #expect(try await theirs.contacts().map(\.phone) == ["2 or 3"])
    }

    @Test func `a row and its write exist together or not at all even if the app catches the error`() async throws {
        let phone = try await Self.phone()
        let (kari, deep) = (
            Contact(name: "Kari"), String(repeating: "[", count: 512) + String(repeating: "]", count: 512)
        )
        let visit = Visit(contactID: kari.id, title: "First")
        try await phone.write { db, client in
            // a row that the library has no record of
            try kari.insert(db)
            do {
                try client.insert(visit, in: db)
                Issue.record("a visit with an unknown contact was enqueued")
            } catch is SluiceError {}
            try client.enqueue(.create(kari), in: db)
            do {
                try client.insert(Visit(contactID: kari.id, title: "Deep", details: deep), in: db)
                Issue.record("an invalid payload was enqueued")
            } catch is SluiceError {}
        }
        #expect(try await phone.visits() == [])
        // after the referenced row, the visit can be enqueued
        try await phone.create(visit)
        #expect((await phone.sync()).pending == 0)
        #expect(try await phone.visits() == [visit])
        await #expect(throws: SluiceError.self) {
            try await phone.pool.writeWithoutTransaction { [client = phone.client] db in
                _ = try client.insert(Contact(name: "Ola"), in: db)
            }
        }
        #expect(try await phone.contacts() == [kari])
    }
}

private struct Staff: Codable, FetchableRecord, PersistableRecord, Syncable {
    var id: UUID
    var bossID: UUID?
    var contactID: UUID?

    static let sync = EntitySync(
        "staff",
        table: "staff",
        key: .uuid("id"),
        columns: [
            .reference("bossID", as: "boss_id", to: "staff"), .reference("contactID", as: "contact_id", to: "contact"),
        ]
    )
}

private struct Tag: Codable, FetchableRecord, PersistableRecord, Syncable {
    var id: String
    var name: String

    static let sync = EntitySync("tag", table: "tag", key: .text("id"), columns: [.text("name")])
}
