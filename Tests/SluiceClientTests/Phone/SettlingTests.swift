import Foundation
import GRDB
import SluiceClient
import Testing

/// Conflicts, failures and rejections. No data is lost, both versions are available, and a user settles the
/// mutations, also offline.
@Suite struct SettlingTests {
    /// The phones of two users with the same contact. Both users changed its number offline, and the second push
    /// conflicts with the first.
    private struct Dispute {
        let mine: TestPhone
        let theirs: TestPhone
        let edit: UUID
        let contact: Contact

        init(_ settings: String = "{}") async throws {
            let kari: Contact
            (mine, theirs, kari) = try await TestPhone.pair(settings)
            var copy = try #require(try await theirs.contacts().first)
            copy.phone = "2"
            try await theirs.update(copy)
            var own = kari
            own.phone = "3"
            edit = try #require(try await mine.update(own))
            await theirs.sync()
            let status = await mine.sync()
            #expect(status.conflicts == 1 && status.pending == 0 && status.lastError == nil)
            contact = own
        }

        func phones(_ phone: TestPhone) async throws -> [String?] { try await phone.contacts().map(\.phone) }
    }

    @Test func `a conflict provides both versions and shows the own one until it is settled`() async throws {
        let dispute = try await Dispute()
        let conflict = try #require(try await dispute.mine.pool.read { try FailedWrite.fetchConflicts($0) }.first)
        #expect(conflict.id == dispute.edit && conflict.reason == .conflict)
        #expect(conflict.theirs?["document"]?["phone"] == "2")
        #expect(conflict.payload == ["phone": "3"])
        #expect(try await dispute.phones(dispute.mine) == ["3"])
        guard case .failed(conflict) = try await dispute.mine.client.outcome(of: dispute.edit) else {
            Issue.record("no conflict")
            return
        }
    }

    @Test(arguments: [Winner.server, .client])
    func `a conflict of a lost phone is settled on another phone of the user`(_ winner: Winner) async throws {
        let dispute = try await Dispute()
        let next = try await TestPhone.another(of: dispute.mine)
        try await next.create(Contact(name: "Ola"))
        let status = await next.sync()
        #expect(status.phase == .blocked && status.conflicts == 1 && status.pending == 1, "\(status)")
        let conflict = try #require(try await next.pool.read { try FailedWrite.fetchConflicts($0) }.first)
        #expect(conflict.id == dispute.edit && conflict.deviceID != nil && conflict.operation == .update)
        let theirs = try await next.pool.read { [client = next.client] db in
            try client.theirs(of: conflict, as: Contact.self, in: db)
        }
        #expect(theirs?.phone == "2")
        try await next.client.resolve(conflict.id, winner)
        let decided = next.client.currentStatus
        #expect(decided.blockedBy == nil && decided.phase == .suspended && decided.conflicts == 0, "\(decided)")
        let end = await next.sync()
        #expect(end.blockedBy == nil && end.conflicts == 0 && end.pending == 0 && end.lastError == nil, "\(end)")
        await next.sync()
        #expect(try await next.contacts().map(\.phone) == [winner == .server ? "2" : "3", nil])
    }

    @Test func `another phone settles a conflict with a version that a person made of both versions`() async throws {
        let dispute = try await Dispute()
        let next = try await TestPhone.another(of: dispute.mine)
        await next.sync()
        var merged = try #require(try await next.contacts().first)
        merged.phone = "2 or 3"
        try await next.client.resolve(dispute.edit, with: merged)
        // the gateway carries the decision out later, and this phone has no waiting write for it
        try await eventually("the merged version is pulled") {
            await next.sync()
            return try await dispute.phones(next) == ["2 or 3"]
        }
    }

    @Test func `settling for the server shows its version immediately, also offline`() async throws {
        let dispute = try await Dispute()
        try await dispute.mine.client.resolve(dispute.edit, .server)
        #expect(try await dispute.phones(dispute.mine) == ["2"])
        let status = await dispute.mine.sync()
        #expect(status.conflicts == 0 && status.failed == 0, "\(status)")
        #expect(try await dispute.phones(dispute.mine) == ["2"])
        #expect(try await dispute.mine.client.state(of: dispute.edit) == .discarded)
    }

    @Test func `settling for the client applies its version on all phones`() async throws {
        let dispute = try await Dispute()
        try await dispute.mine.client.resolve(dispute.edit, .client)
        let status = await dispute.mine.sync()
        #expect(status.conflicts == 0)
        await dispute.theirs.sync()
        #expect(try await dispute.phones(dispute.mine) == ["3"])
        #expect(try await dispute.phones(dispute.theirs) == ["3"])
    }

    @Test func `a conflict can be settled with a merged version`() async throws {
        let dispute = try await Dispute()
        var both = dispute.contact
        both.phone = "2 or 3"
        try await dispute.mine.client.resolve(dispute.edit, with: both)
        #expect(try await dispute.phones(dispute.mine) == ["2 or 3"])
        await dispute.mine.sync()
        await dispute.theirs.sync()
        #expect(try await dispute.phones(dispute.mine) == ["2 or 3"])
        #expect(try await dispute.phones(dispute.theirs) == ["2 or 3"])
    }

    @Test func `discarding a conflict restores the server's version`() async throws {
        let dispute = try await Dispute()
        try await dispute.mine.client.discard(dispute.edit)
        #expect(try await dispute.phones(dispute.mine) == ["2"])
        #expect((await dispute.mine.sync()).conflicts == 0)
        #expect(try await dispute.phones(dispute.mine) == ["2"])
    }

    @Test func `discarding an unsent write removes it, and its dependents if requested`()
        async throws
    {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let kari = Contact(name: "Kari")
        let create = try #require(try await phone.create(kari))
        let visit = try #require(try await phone.create(Visit(contactID: kari.id, title: "First")))
        await #expect(throws: SluiceError.hasDependents(1)) { try await phone.client.discard(create) }
        #expect(try await phone.contacts().count == 1)
        try await phone.client.discard(create, dependents: .discard)
        #expect(try await phone.contacts() == [])
        #expect(try await phone.visits() == [])
        #expect(try await phone.client.state(of: visit) == .discarded)
        let status = await phone.sync()
        #expect(status.pending == 0 && status.failed == 0 && status.lastError == nil)
        // the row may be created again
        try await phone.create(kari)
        #expect((await phone.sync()).failed == 0)
        #expect(try await phone.contacts() == [kari])
    }

    @Test func `a write rejected by the gateway is shown with the reason, corrected and accepted`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization(#"{"entity_types":"registered"}"#)
        try await gateway.register("visit", "{}", in: organization)
        let phone = try await TestPhone(gateway, organization: organization)
        let kari = Contact(name: "Kari")
        let create = try #require(try await phone.create(kari))
        let visit = try #require(try await phone.create(Visit(contactID: kari.id, title: "First")))
        var status = await phone.sync()
        // the visit is not sent without its contact, because its client id would be treated as data
        #expect(status.failed == 1 || status.failed == 2)
        let failed = try #require(try await phone.pool.read { try FailedWrite.fetchAll($0) }.first)
        #expect(failed.id == create && failed.reason == .rejected && failed.problem?.code == "validation_failed")
        #expect(try await phone.contacts() == [kari])
        try await gateway.register("contact", "{}", in: organization)
        try await phone.client.retry(create)
        status = await phone.sync()
        #expect(status.failed == 0 && status.pending == 0)
        guard case .applied = try await phone.client.outcome(of: visit) else {
            Issue.record("\(String(describing: try await phone.client.state(of: visit)))")
            return
        }
        let other = try await TestPhone(gateway, organization: organization)
        await other.sync()
        #expect(try await other.visits().map(\.contactID) == other.contacts().map(\.id))
    }

    /// The retry is queued after later edits, so the displayed row contains the retried edit.
    @Test func `a retry after a deletion shows the row again`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let (kari, ola) = (Contact(name: "Kari"), Contact(name: "Ola"))
        var visit = Visit(contactID: kari.id, title: "First")
        try await phone.create(kari)
        try await phone.create(visit)
        let create = try #require(try await phone.create(ola))
        visit.contactID = ola.id
        let patch = try #require(try await phone.update(visit))
        let deletion = try #require(try await phone.delete(visit))
        // the gateway's results: it rejected the create and the unresolved reference, and processes the deletion
        try await phone.pool.write { db in
            try db.execute(sql: "UPDATE sluice_mutations SET status = 'succeeded', version = 1")
            for (id, status) in [(create, "rejected"), (patch, "rejected"), (deletion, "pending")] {
                try db.execute(
                    sql: "UPDATE sluice_mutations SET status = ? WHERE id = ?",
                    arguments: [status, id.uuidString.lowercased()]
                )
            }
        }
        #expect(try await phone.visits() == [])
        try await phone.client.retry(create)
        #expect(try await phone.visits() == [visit])
    }

    @Test func `saving a form changes only the edited columns`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        // the form is open while another user changes the name
        let copy = try #require(try await theirs.contacts().first)
        var renamed = copy
        renamed.name = "Kari N."
        try await theirs.update(renamed)
        await theirs.sync()
        await mine.sync()
        var form = kari
        form.phone = "2"
        func save(_ form: Contact, from original: Contact) async throws -> UUID? {
            try await mine.write { db, client in
                try form.update(db)
                return try client.enqueue(.update(form, from: original), in: db)
            }
        }
        #expect(try await save(form, from: kari) != nil)
        #expect(try await mine.contacts() == [Contact(id: kari.id, name: "Kari N.", phone: "2")])
        #expect((await mine.sync()).conflicts == 0)
        await theirs.sync()
        #expect(try await theirs.contacts().map(\.name) == ["Kari N."])
        #expect(try await theirs.contacts().map(\.phone) == ["2"])
        // both users changed the same column, so the other user's change is not overwritten silently
        var again = kari
        again.name = "K."
        #expect(try await save(again, from: kari) != nil)
        #expect((await mine.sync()).conflicts == 1)
        // nothing was changed, so the changes of others stay
        #expect(try await save(kari, from: kari) == nil)
        #expect(try await mine.contacts().map(\.phone) == ["2"])
    }

    @Test func `an edit that overrides a deletion restores the whole row`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        try await theirs.delete(try #require(try await theirs.contacts().first))
        await theirs.sync()
        var own = kari
        own.phone = "3"
        let edit = try #require(try await mine.update(own))
        #expect((await mine.sync()).conflicts == 1)
        #expect(try await mine.contacts() == [own], "the edit is shown until it is settled")
        try await mine.client.resolve(edit, .client)
        let status = await mine.sync()
        #expect(status.conflicts == 0 && status.failed == 0 && status.blockedBy == nil, "\(status)")
        await theirs.sync()
        #expect(try await theirs.contacts().map(\.name) == ["Kari"])
        #expect(try await theirs.contacts().map(\.phone) == ["3"])
        #expect(try await mine.contacts() == [own])
    }

    @Test func `a number with fewer trailing digits is the same number`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let kari = Contact(name: "Kari")
        try await phone.create(kari)
        var visit = Visit(contactID: kari.id, title: "First", amount: "129.90")
        try await phone.create(visit)
        visit.amount = "129.9"
        #expect(try await phone.update(visit) == nil)
        visit.title = "Second"
        let edit = try #require(try await phone.update(visit))
        let payload = try await phone.pool.read {
            try String.fetchOne(
                $0,
                sql: "SELECT payload FROM sluice_mutations WHERE id = ?",
                arguments: [edit.uuidString.lowercased()]
            )
        }
        #expect(payload == #"{"title":"Second"}"#)
    }
}
