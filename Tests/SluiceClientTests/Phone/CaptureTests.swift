import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// Apps whose changes are captured by triggers, and the check of apps that call the library.
@Suite struct CaptureTests {
    private static func phone(_ gateway: MockGateway = MockGateway(), file: String? = nil) throws -> MockPhone {
        try MockPhone(gateway, file: file) { $0.capture = .triggers }
    }

    @Test func `rows that the app writes without a call reach the other phones`() async throws {
        let mine = try Self.phone()
        let theirs = try MockPhone(mine.gateway, user: "ola")
        var kari = Contact(name: "Kari")
        let visit = Visit(contactID: kari.id, title: "First")
        try await mine.pool.write { [kari] db in
            // the app's order of statements does not matter
            try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
            try visit.insert(db)
            try kari.insert(db)
        }
        #expect(mine.client.currentStatus.pending > 0)
        #expect(await mine.sync().isComplete)
        #expect(await theirs.sync().isComplete)
        #expect(try await theirs.contacts().map(\.name) == ["Kari"])
        #expect(try await theirs.visits().map(\.title) == ["First"])
        kari.name = "Kari N."
        try await mine.pool.write { [kari] in try kari.update($0) }
        #expect(await mine.sync().isComplete)
        await theirs.sync()
        #expect(try await theirs.contacts().map(\.name) == ["Kari N."])
        // the app's foreign key deletes the visit
        try await mine.pool.write { [kari] in _ = try kari.delete($0) }
        #expect(await mine.sync().isComplete)
        #expect(await theirs.sync().isComplete)
        #expect(try await theirs.contacts() == [])
        #expect(mine.gateway.entities(of: "visit").map(\.isDeleted) == [true])
    }

    @Test func `pulled rows and calls of the library are not captured`() async throws {
        let mine = try Self.phone()
        let id = mine.gateway.put("contact", ["name": "Kari"])
        await mine.sync()
        mine.gateway.put("contact", id: id, ["name": "Kari N."])
        await mine.sync()
        mine.gateway.delete("contact", id: id)
        await mine.sync()
        #expect(try await mine.pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sluice_mutations") } == 0)
        let ola = Contact(name: "Ola")
        try await mine.client.insert(ola, options: Write.Options(priority: 7))
        await mine.sync()
        let priorities = try await mine.pool.read {
            try Int.fetchAll($0, sql: "SELECT priority FROM sluice_mutations")
        }
        #expect(priorities == [7])
        #expect(try await mine.pool.read { try mine.client.missedChanges(in: $0) } == [])
    }

    @Test func `changes of one row become one write, and a pull in between loses none`() async throws {
        let phone = try Self.phone()
        let kari = Contact(name: "Kari", phone: "1")
        try await phone.pool.write { db in
            try kari.insert(db)
            for number in 2...9 {
                try db.execute(sql: "UPDATE contact SET phone = ?", arguments: ["\(number)"])
            }
        }
        await phone.sync()
        let id = try #require(phone.gateway.entities(of: "contact").first).id
        #expect(phone.gateway.entities(of: "contact").map(\.version) == [1])
        // a column that is not mapped is not captured
        try await phone.pool.write { try $0.execute(sql: "UPDATE visit SET isStarred = 1") }
        try await phone.pool.write { try $0.execute(sql: "UPDATE contact SET phone = '10'") }
        phone.gateway.put("contact", id: id, ["name": "Kari N.", "phone": "9"])
        #expect(await phone.sync().conflicts == 1)
        #expect(try await phone.contacts() == [Contact(id: kari.id, name: "Kari N.", phone: "10")])
    }

    @Test func `rows that an app changed before it ended are enqueued at the next launch`() async throws {
        let phone = try Self.phone()
        phone.client.suspend()
        try await phone.pool.write { try Contact(name: "Kari").insert($0) }
        try phone.pool.close()
        let next = try MockPhone(phone.gateway, file: phone.file)
        #expect(await next.sync().isComplete)
        #expect(phone.gateway.entities(of: "contact").map { $0.document["name"] } == ["Kari"])
    }

    @Test func `a row that cannot be enqueued is reported, and does not delay others`() async throws {
        let phone = try Self.phone()
        let deep = String(repeating: "[", count: 512) + String(repeating: "]", count: 512)
        let kari = Contact(name: "Kari")
        try await phone.pool.write { db in
            try kari.insert(db)
            try Visit(contactID: kari.id, title: "Deep", details: deep).insert(db)
            try Visit(contactID: kari.id, title: "First").insert(db)
        }
        await phone.client.syncOnce(deadline: .seconds(5))
        #expect(phone.gateway.entities(of: "visit").map { $0.document["title"] } == ["First"])
        let missed = try await phone.pool.read { try phone.client.missedChanges(in: $0) }
        #expect(missed.map(\.entityType) == ["visit"])
    }

    @Test func `changes without a call are reported in debug builds`() async throws {
        let reported = Locked<[MissedChange]>([])
        let phone = try MockPhone { configuration in
            configuration.onMissedChanges = { changes in reported.withLock { $0 += changes } }
        }
        let (kari, ola) = (Contact(name: "Kari"), Contact(name: "Ola"))
        try await phone.insert(kari)
        await phone.sync()
        try await phone.pool.write { db in
            try ola.insert(db)
            try db.execute(sql: "UPDATE contact SET phone = '1' WHERE name = 'Kari'")
        }
        try await eventually("both changes are reported") { reported.withLock { $0.count } == 2 }
        #expect(Set(reported.withLock { $0 }.map(\.kind)) == [.created, .changed(columns: ["phone"])])
        let missed = try await phone.pool.read { try phone.client.missedChanges(in: $0) }
        #expect(Set(missed) == Set(reported.withLock { $0 }))
        // reported changes are not sent
        #expect(await phone.sync().pending == 0)
        #expect(phone.gateway.entities(of: "contact").count == 1)
    }
}
