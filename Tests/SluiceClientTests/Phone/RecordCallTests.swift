import Foundation
import GRDB
import SluiceClient
import Testing

/// A row and its mutation in one call, and decisions within a transaction of the app's.
@Suite struct RecordCallTests {
    private static func phone(entities: [EntitySync] = [Contact.sync, Visit.sync]) async throws -> TestPhone {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        try await gateway.register("folder", #"{"id_space":"device"}"#, in: organization)
        return try await TestPhone(gateway, organization: organization, entities: entities)
    }

    @Test func `a row and its mutation are written by one call`() async throws {
        let phone = try await Self.phone(entities: [Contact.sync, Visit.sync, Folder.sync])
        let kari = Contact(name: "Kari", phone: "1")
        try await phone.write { db, client in
            try client.insert(kari, in: db)
            var folder = Folder(name: "Inbox")
            try client.insert(&folder, in: db)
            #expect(folder.id == 1)
        }
        #expect((await phone.sync()).pending == 0)
        let edits = try await phone.write { db, client in
            var edited = kari
            edited.phone = "2"
            var other = edited
            other.name = "Kari N."
            return [
                try client.update(edited, in: db), try client.update(edited, in: db),
                try client.update(other, from: edited, Write.Options(priority: 10), in: db),
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

    @Test func `rows that were there before the library are enqueued once`() async throws {
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

    @Test func `a decision is part of the app's transaction, or of none`() async throws {
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
        // what cannot be done has changed nothing of the transaction around it
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

    @Test func `a row and its write are both there or neither, whoever catches the error`() async throws {
        let phone = try await Self.phone()
        let (kari, deep) = (
            Contact(name: "Kari"), String(repeating: "[", count: 512) + String(repeating: "]", count: 512)
        )
        let visit = Visit(contactID: kari.id, title: "First")
        try await phone.write { db, client in
            // a row that the library has not been told of
            try kari.insert(db)
            do {
                try client.insert(visit, in: db)
                Issue.record("a visit of nobody")
            } catch is SluiceError {}
            try client.enqueue(.create(kari), in: db)
            do {
                try client.insert(Visit(contactID: kari.id, title: "Deep", details: deep), in: db)
                Issue.record("a payload that nobody can read")
            } catch is SluiceError {}
        }
        #expect(try await phone.visits() == [])
        // once what it names is known, it can be enqueued
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
