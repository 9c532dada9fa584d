import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// An entity for which the phone has two names: its own key, and a server id that arrives with a reference.
@Suite struct OneEntityTests {
    /// A phone whose contact is being pushed, and a pulled visit that references the contact by its server id.
    private struct Named {
        let phone: OfflinePhone
        let contact = Contact(name: "Mine")
        let create: UUID
        let serverID = UUID()
        let visit: JSON

        init() throws {
            phone = try OfflinePhone()
            create = try phone.create(contact)
            try phone.answer(phone.push(), [Told.result(create, "pending")])
            visit = Told.change("visit", UUID(), 2, ["contact_id": .string(serverID.wire), "title": "Theirs"])
            try phone.pull(visit)
            #expect(try phone.held().count == 1)
        }

        func check() throws {
            try phone.refreshHeld()
            #expect(try phone.all(Contact.self) == [contact])
            #expect(try phone.all(Visit.self).map(\.contactID) == [contact.id])
            #expect(try phone.held() == [])
        }
    }

    @Test func `an entity that is referenced before its create's success arrives keeps its key`() throws {
        let named = try Named()
        try named.phone.tell(Told.success(named.create, of: named.serverID))
        try named.check()
    }

    @Test func `an entity that is referenced before its own change is pulled keeps its key`() throws {
        let named = try Named()
        try named.phone.pull(
            Told.change("contact", named.serverID, 3, ["name": "Mine"], by: named.contact.id),
            named.visit
        )
        try named.check()
        try named.phone.pull(Told.change("contact", named.serverID, 4, ["name": "Mine"], by: named.contact.id))
        try named.check()
    }
}
