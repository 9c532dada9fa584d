import Foundation
import JSONText
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Nobody's ids are put in place in anybody else's requests.
@Suite struct TenantTests {
    @Test func idsOfOthersAreJustData() async throws {
        let stage = try await Stage()
        let contact = UUID()
        let create = stage.create(local: contact)
        try await stage.phone.push([create])
        try await stage.mutation(create.id, is: .succeeded)
        let organization = try await stage.newOrganization()
        // another user, and the same user in another organization
        for other in [stage.newPhone(), Phone(stage.gateway, organization, user: stage.phone.user)] {
            let text = contact.lowercased
            let entry = other.entry(
                "create",
                "activity",
                local: UUID(),
                payload: #"{"of":"\#(text)"}"#,
                extra: ["endpoint": #""/contacts/\#(text)/activities""#]
            )
            try await other.push([entry])
            try await stage.mutation(entry.id, of: other, is: .succeeded)
            let request = try #require(stage.upstream.requests.last)
            #expect(request.line == "POST /contacts/\(text)/activities")
            #expect(request.text == #"{"of":"\#(text)"}"#)
            #expect(request.organization == other.organization.id && request.user == other.user)
            // the same client id is another entity of theirs
            let own = other.entry("create", "contact", local: contact, extra: ["endpoint": #""/contacts""#])
            let update = other.entry(
                "update",
                "contact",
                local: contact,
                extra: ["endpoint": #""/contacts/{local_id}""#]
            )
            try await other.push([own, update])
            try await stage.mutation(update.id, of: other, is: .succeeded)
            let id = try #require(try await stage.mapping(contact, of: other).serverID)
            #expect(id.text != "1" && stage.upstream.requests.last?.path == "/contacts/\(id.text)")
        }
        #expect(Set(stage.upstream.requests.map(\.idempotencyKey)).count == stage.upstream.requests.count)
    }
}
