import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import SyncStore

/// A UUID without an entity is data. If the same device later creates an entity with this id, the create receives a
/// warning.
@Suite struct WarningTests {
    private func codes(_ answer: JSONValue) -> [[String]] {
        answer.results.map { $0["warnings"]?.elements.map { $0.compactMap { $0["code"]?.string } } ?? [] }
    }

    @Test func `a create whose ID was data before receives a warning`() async throws {
        let phone = try await Phone.new()
        let contact = UUID()
        let note = phone.create("note", payload: #"{"of":"\#(contact.uuidString)"}"#)
        #expect(codes(try await phone.push([note])) == [[]])
        let (create, other) = (phone.create("contact", local: contact), phone.create("contact"))
        let answer = try await phone.push([other, create])
        #expect(answer.results.map(\.status) == ["succeeded", "succeeded"])
        #expect(codes(answer) == [[], ["client_id_was_data"]])
        let warning = answer.results[1]["warnings"]?.elements.map(Array.init)?.first
        #expect(warning?["pointer"]?.string == "/mutations/1/local_id")
        #expect(warning?["detail"]?.string?.isEmpty == false)
        // a repeat through another replica receives the same warning
        let replica = try await Gateway(replicaOf: phone.gateway)
        let again = try await phone.push([create], through: replica)
        #expect(again.results[0].isReplayed == true && codes(again) == [["client_id_was_data"]])
        // later references resolve to the entity
        let later = phone.create("note", payload: #"{"of":"\#(contact.lowercased)"}"#)
        try await phone.push([later])
        let document = try await phone.pull(types: ["note"]).last?["document"]
        #expect(document?["of"]?.string == answer.results[1].serverID)
    }

    @Test func `another device's reference causes no warning`() async throws {
        let phone = try await Phone.new()
        let contact = UUID()
        try await phone.push([phone.create("note", payload: #"{"of":"\#(contact.lowercased)"}"#)])
        let tablet = Phone(phone.gateway, phone.organization, user: phone.user)
        #expect(codes(try await tablet.push([tablet.create("contact", local: contact)])) == [[]])
        let stranger = Phone(phone.gateway, phone.organization)
        #expect(codes(try await stranger.push([stranger.create("contact", local: contact)])) == [[]])
    }

    @Test func `limits the remembered IDs and omits those of rejected entries`() async throws {
        let phone = try await Phone.new()
        let ids = (0..<UnresolvedIDHistory.limit + 1).map { _ in UUID() }
        for id in ids { try await phone.push([phone.create("note", payload: #"{"of":"\#(id.lowercased)"}"#)]) }
        let creates = ids.map { phone.create("contact", local: $0) }
        let answer = codes(try await phone.push(creates))
        #expect(answer == [[]] + Array(repeating: ["client_id_was_data"], count: UnresolvedIDHistory.limit))
        // the references of a rejected mutation do not count
        let id = UUID()
        let refused = phone.entry("update", "note", local: UUID(), payload: #"{"of":"\#(id.lowercased)"}"#)
        #expect(try await phone.push([refused]).results[0].status == "rejected")
        #expect(codes(try await phone.push([phone.create("contact", local: id)])) == [[]])
    }

    @Test func `a preview contains the warning`() async throws {
        let phone = try await Phone.new()
        let contact = UUID()
        try await phone.push([phone.create("note", payload: #"{"of":"\#(contact.lowercased)"}"#)])
        let create = phone.create("contact", local: contact)
        let body = #"{"device_id":"\#(phone.device.lowercased)","mutations":[\#(create.json)]}"#
        let preview = try await phone.gateway.store.previews.preview(
            PushRequest(body: Array(body.utf8), limits: IntakeLimits()),
            organization: phone.organization,
            user: phone.user,
            isStrict: false
        )
        #expect(codes(try JSONTree(parsing: preview.json()).root) == [["client_id_was_data"]])
        #expect(codes(try await phone.push([create])) == [["client_id_was_data"]])
    }
}
