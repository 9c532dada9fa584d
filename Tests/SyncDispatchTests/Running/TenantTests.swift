import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore

/// A user's ids are never inserted into another user's requests.
@Suite struct TenantTests {
    @Test func `ids of other users are data`() async throws {
        let stage = try await DispatcherHarness()
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

/// Lanes of suspended organizations.
@Suite struct SuspendedLaneTests {
    private static func put(_ stage: DispatcherHarness, _ status: String) async throws {
        let body = Array(#"{"status":"\#(status)"}"#.utf8)
        _ = try await stage.gateway.store.administration.put(stage.organization.id, OrganizationUpdate(body: body))
    }

    @Test func `sends nothing for a suspended organization and continues once it is active`() async throws {
        let stage = try await DispatcherHarness(upstream: FakeUpstream { _, seen in seen == 0 ? .status(503) : nil })
        let create = stage.create()
        try await stage.phone.push([create])
        try await stage.mutation(create.id, becomes: "held") { $0.nextRetryAt != nil }
        #expect(stage.upstream.requests.count == 1)
        try await Self.put(stage, "suspended")
        // due repeatedly, and postponed each time
        for _ in 0..<3 {
            stage.gateway.clock.advance(seconds: 60)
            try await waitUntil("it is postponed") {
                try await stage.lane().readyAt.map { $0 > stage.gateway.clock.now } ?? false
            }
        }
        #expect(stage.upstream.requests.count == 1)
        #expect(try await stage.mutation(create.id).status == "pending")
        try await Self.put(stage, "active")
        stage.gateway.clock.advance(seconds: 31)
        try await stage.mutation(create.id, is: .succeeded)
        #expect(stage.upstream.requests.count == 2)
    }

    /// A request in flight at the suspension cannot be recalled; its outcome is stored.
    @Test func `stores the outcome of a request in flight and does not send the next`() async throws {
        let gate = Gate()
        let stage = try await DispatcherHarness(
            upstream: FakeUpstream { _, _ in
                await gate.pass()
                return nil
            }
        )
        let (first, second) = (stage.create(), stage.create())
        try await stage.phone.push([first, second])
        try await stage.mutation(first.id, is: .inFlight)
        try await Self.put(stage, "suspended")
        gate.open()
        try await stage.mutation(first.id, is: .succeeded)
        #expect(try await stage.mutation(second.id).status == "pending")
        #expect(stage.upstream.requests.count == 1)
        try await Self.put(stage, "active")
        stage.gateway.clock.advance(seconds: 31)
        try await stage.mutation(second.id, is: .succeeded)
    }
}
