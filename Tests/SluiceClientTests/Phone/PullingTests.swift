import Foundation
import GRDB
import SluiceClient
import Testing

/// Pulled changes are always applied, and a waiting edit is never overwritten or skipped.
@Suite struct PullingTests {
    @Test func `a pull changes the base of a waiting edit but not the edit`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair(#"{"conflict_resolution":"client_wins"}"#)
        var copy = try #require(try await theirs.contacts().first)
        copy.name = "Kari Nordmann"
        copy.phone = "2"
        try await theirs.update(copy)
        await theirs.sync()
        // the edit waits while the phone pulls, because its push is lost
        var own = kari
        own.phone = "3"
        try await mine.update(own)
        try await mine.pool.write {
            try $0.execute(sql: "UPDATE sluice_mutations SET status = 'failed' WHERE status = 'queued'")
        }
        await mine.sync()
        #expect(try await mine.contacts() == [Contact(id: kari.id, name: "Kari Nordmann", phone: "3")])
        try await mine.pool.write {
            try $0.execute(sql: "UPDATE sluice_mutations SET status = 'queued' WHERE status = 'failed'")
        }
        await mine.sync()
        await theirs.sync()
        #expect(try await theirs.contacts().map(\.phone) == ["3"])
    }

    @Test func `rows wait for parents that arrive later and invalid documents wait for the app`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let mine = try await TestPhone(gateway, organization: organization)
        let kari = Contact(name: "Kari")
        try await mine.create(kari)
        for index in 0..<5 { try await mine.create(Visit(contactID: kari.id, title: "\(index)")) }
        await mine.sync()
        // the contact's change follows those of its visits
        var renamed = kari
        renamed.name = "Kari N."
        try await mine.update(renamed)
        await mine.sync()
        let other = try await TestPhone(gateway, organization: organization) { $0.pageLimit = 2 }
        let status = await other.sync()
        #expect(status.held == 0)
        #expect(try await other.visits().map(\.title) == ["0", "1", "2", "3", "4"])
        // a contact without a name does not fit the app's table
        try await mine.pool.write { db in
            _ = try mine.client.enqueue(.request("POST", "/x", payload: ["phone": "1"], of: Contact.self), in: db)
        }
        await mine.sync()
        let held = await other.sync()
        #expect(held.held == 1 && held.lastError == nil)
        #expect(try await other.contacts().count == 1)
    }

    @Test func `an expired cursor restarts the pull and loses neither rows nor edits`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let mine = try await TestPhone(gateway, organization: organization)
        let theirs = try await TestPhone(gateway, organization: organization)
        let (kari, ola) = (Contact(name: "Kari"), Contact(name: "Ola"))
        try await mine.create(kari)
        try await mine.create(ola)
        await mine.sync()
        await theirs.sync()
        let copies = try await theirs.contacts()
        try await theirs.delete(copies[1])
        await theirs.sync()
        var edited = kari
        edited.phone = "9"
        let edit = try #require(try await mine.update(edited))
        // the cursor has another epoch, as after a restore
        try await mine.pool.write { db in
            let cursor = try String.fetchOne(db, sql: "SELECT cursor FROM sluice_device") ?? ""
            var parts = cursor.split(separator: "-")
            parts[1] = "1"
            try db.execute(sql: "UPDATE sluice_device SET cursor = ?", arguments: [parts.joined(separator: "-")])
        }
        let status = await mine.sync()
        #expect(status.lastError == nil && status.snapshotRows == nil)
        #expect(try await mine.contacts() == [edited])
        guard case .applied = try await mine.client.outcome(of: edit) else {
            Issue.record("the edit is gone")
            return
        }
    }
}
