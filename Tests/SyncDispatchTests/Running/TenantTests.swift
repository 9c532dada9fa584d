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
        let harness = try await DispatcherHarness()
        let contact = UUID()
        let create = harness.create(local: contact)
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .succeeded)
        let organization = try await harness.newOrganization()
        // another user, and the same user in another organization
        for other in [harness.newPhone(), Phone(harness.gateway, organization, user: harness.phone.user)] {
            let text = contact.lowercased
            let entry = other.entry(
                "create",
                "activity",
                local: UUID(),
                payload: #"{"of":"\#(text)"}"#,
                extra: ["endpoint": #""/contacts/\#(text)/activities""#]
            )
            try await other.push([entry])
            try await harness.mutation(entry.id, of: other, is: .succeeded)
            let request = try #require(harness.upstream.requests.last)
            #expect(request.line == "POST /contacts/\(text)/activities")
            #expect(request.text == #"{"of":"\#(text)"}"#)
            #expect(request.organization == other.organization.id && request.user == other.user)
            // for the other user, the same client id names another entity
            let own = other.entry("create", "contact", local: contact, extra: ["endpoint": #""/contacts""#])
            let update = other.entry(
                "update",
                "contact",
                local: contact,
                extra: ["endpoint": #""/contacts/{local_id}""#]
            )
            try await other.push([own, update])
            try await harness.mutation(update.id, of: other, is: .succeeded)
            let id = try #require(try await harness.mapping(contact, of: other).serverID)
            #expect(id.text != "1" && harness.upstream.requests.last?.path == "/contacts/\(id.text)")
        }
        #expect(Set(harness.upstream.requests.map(\.idempotencyKey)).count == harness.upstream.requests.count)
    }
}

/// Lanes of suspended organizations.
@Suite struct SuspendedLaneTests {
    private static func put(_ harness: DispatcherHarness, _ status: String) async throws {
        let body = Array(#"{"status":"\#(status)"}"#.utf8)
        _ = try await harness.gateway.store.administration.put(harness.organization.id, OrganizationUpdate(body: body))
    }

    @Test func `sends nothing for a suspended organization and continues once it is active`() async throws {
        let harness = try await DispatcherHarness(upstream: FakeUpstream { _, seen in seen == 0 ? .status(503) : nil })
        let create = harness.create()
        try await harness.phone.push([create])
        try await harness.mutation(create.id, becomes: "held") { $0.nextRetryAt != nil }
        #expect(harness.upstream.requests.count == 1)
        try await Self.put(harness, "suspended")
        // due repeatedly, and postponed each time
        for _ in 0..<3 {
            harness.gateway.clock.advance(seconds: 60)
            try await waitUntil("the lane is postponed") {
                try await harness.lane().readyAt.map { $0 > harness.gateway.clock.now } ?? false
            }
        }
        #expect(harness.upstream.requests.count == 1)
        #expect(try await harness.mutation(create.id).status == "pending")
        try await Self.put(harness, "active")
        harness.gateway.clock.advance(seconds: 31)
        try await harness.mutation(create.id, is: .succeeded)
        #expect(harness.upstream.requests.count == 2)
    }

    /// A request in flight at the suspension cannot be recalled; its outcome is stored.
    @Test func `stores the outcome of a request in flight and does not send the next`() async throws {
        let gate = Gate()
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, _ in
                await gate.pass()
                return nil
            }
        )
        let (first, second) = (harness.create(), harness.create())
        try await harness.phone.push([first, second])
        try await harness.mutation(first.id, is: .inFlight)
        try await Self.put(harness, "suspended")
        gate.open()
        try await harness.mutation(first.id, is: .succeeded)
        #expect(try await harness.mutation(second.id).status == "pending")
        #expect(harness.upstream.requests.count == 1)
        try await Self.put(harness, "active")
        harness.gateway.clock.advance(seconds: 31)
        try await harness.mutation(second.id, is: .succeeded)
    }
}
