import Foundation
import GRDB
import SluiceClient
import Testing

@Suite struct RoundTripTests {
    @Test func `another phone shows an offline phone's rows with their relations`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let phone = try await TestPhone(gateway, organization: organization)
        let kari = Contact(name: "Kari", phone: "+47")
        var visit = Visit(
            contactID: kari.id,
            title: "First",
            amount: "129.90",
            startedAt: Date(timeIntervalSince1970: 1_795_000_000.125)
        )
        visit.details = #"{"guests":["\#(kari.id.uuidString.lowercased())"],"lines":[]}"#
        let first = try #require(try await phone.create(kari))
        let second = try #require(try await phone.create(visit))
        #expect(try await phone.client.state(of: first) == .queued)
        let status = await phone.sync()
        #expect(status.lastError == nil)
        #expect(status.pending == 0)
        guard case .applied(let serverID, 1, true) = try await phone.client.outcome(of: second) else {
            Issue.record("\(String(describing: try await phone.client.state(of: second)))")
            return
        }
        #expect(serverID?.string != visit.id.uuidString.lowercased())
        // the keys stay the same
        #expect(try await phone.contacts() == [kari])
        #expect(try await phone.visits() == [visit])

        let other = try await TestPhone(gateway, organization: organization)
        let theirs = await other.sync()
        #expect(theirs.lastError == nil)
        let contact = try #require(try await other.contacts().first)
        let copy = try #require(try await other.visits().first)
        #expect(contact.name == "Kari" && contact.id != kari.id)
        #expect(copy.contactID == contact.id && copy.amount == "129.90" && copy.startedAt == visit.startedAt)
        #expect(copy.details == #"{"guests":["\#(contact.id.uuidString.lowercased())"],"lines":[]}"#)
        // an edit of the other phone's row
        var renamed = contact
        renamed.name = "Kari Nordmann"
        #expect(try await other.update(renamed) != nil)
        #expect(try await other.update(renamed) == nil)
        #expect((await other.sync()).lastError == nil)
        #expect((await phone.sync()).lastError == nil)
        #expect(try await phone.contacts().map(\.name) == ["Kari Nordmann"])
        #expect(try await phone.contacts().map(\.id) == [kari.id])
        #expect(try await phone.contacts().map(\.phone) == ["+47"])
        // the deletion of the visit arrives, too
        let shown = try #require(try await phone.visits().first)
        #expect(try await phone.delete(shown) != nil)
        #expect((await phone.sync()).lastError == nil)
        #expect((await other.sync()).lastError == nil)
        #expect(try await other.visits() == [])
    }
}
