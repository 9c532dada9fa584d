import Foundation
import GRDB
import SluiceClient
import Testing

/// Types that are forwarded to an organization's REST API, which assigns numbers as ids.
@Suite struct ForwardedTests {
    private static let contacts = EntitySync(
        "contact",
        table: "contact",
        key: .uuid("id"),
        columns: Contact.sync.columns,
        endpoint: "/contacts"
    )
    private static let visits = EntitySync(
        "visit",
        table: "visit",
        key: .uuid("id"),
        columns: Visit.sync.columns,
        endpoint: "/visits"
    )

    private static func phone(
        _ gateway: TestGateway,
        _ organization: UUID,
        user: UUID = UUID()
    ) async throws -> TestPhone {
        try await TestPhone(gateway, organization: organization, user: user, entities: [contacts, visits])
    }

    @Test func `client keys stay unchanged while the upstream assigns numbers`() async throws {
        let gateway = try await TestGateway.start(forwards: true)
        let phone = try await Self.phone(gateway, try await gateway.makeOrganization())
        let kari = Contact(name: "Kari", phone: "1")
        try await phone.create(kari)
        let visit = Visit(contactID: kari.id, title: "First")
        let create = try #require(try await phone.create(visit))
        #expect((await phone.sync()).lastError == nil)
        guard case .applied(let id, _, _) = try await phone.client.outcome(of: create) else {
            Issue.record(
                "\(String(describing: try await phone.client.state(of: create))) \(phone.client.currentStatus)"
            )
            return
        }
        #expect(id?.int64 != nil)
        var row = try await phone.pool.read { try phone.client.row(of: Contact.self, key: kari.id, in: $0) }
        #expect(row?.serverID?.int64 != nil && row?.pending == 0 && row?.failed == 0)
        #expect(try await phone.visits() == [visit])
        // another device of the user
        let tablet = try await Self.phone(gateway, phone.organization, user: phone.user)
        #expect((await tablet.sync()).lastError == nil)
        let copy = try #require(try await tablet.visits().first)
        #expect(copy.contactID == kari.id, "all devices of a user receive the user's client ids")
        var renamed = try #require(try await tablet.contacts().first)
        renamed.phone = "2"
        try await tablet.update(renamed)
        #expect((await tablet.sync()).failed == 0)
        await phone.sync()
        #expect(try await phone.contacts().map(\.phone) == ["2"])
        row = try await phone.pool.read { try phone.client.row(of: Contact.self, key: kari.id, in: $0) }
        #expect(row?.server?.document?["phone"] == "2")
    }

    @Test func `an upstream rejection is shown with its response, can be edited, and then succeeds`() async throws {
        let gateway = try await TestGateway.start(forwards: true)
        let phone = try await Self.phone(gateway, try await gateway.makeOrganization())
        let kari = Contact(name: "Kari")
        try await phone.create(kari)
        await phone.sync()
        var options = Write.Options()
        options.endpoint = "/nowhere/{local_id}"
        var renamed = kari
        renamed.name = "Kari N."
        let edit = try await phone.write { [options, renamed] db, client in
            try renamed.update(db)
            return try client.enqueue(.update(renamed, options: options), in: db)
        }
        await phone.sync()
        guard case .failed(let failed) = try await phone.client.outcome(of: try #require(edit)) else {
            Issue.record("nothing was rejected")
            return
        }
        #expect(failed.reason == .failed && failed.problem?.code == "upstream_rejected")
        #expect(failed.response?["status"]?.int64 == 404)
        #expect(try await phone.contacts().map(\.name) == ["Kari N."])
        try await phone.client.discard(failed.id)
        #expect(try await phone.contacts().map(\.name) == ["Kari"])
        #expect((await phone.sync()).failed == 0)
        #expect(try await phone.contacts().map(\.name) == ["Kari"])
    }
}
