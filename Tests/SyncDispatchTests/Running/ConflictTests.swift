import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Conflicts with other writers, settled by a person or a strategy.
@Suite struct ReplayConflictTests {
    private static let stored = #"{"id":7,"name":"Ola","stars":5}"#

    /// Returns one conflict for a mutation whose payload requests it.
    private static func conflicting(_ body: String? = stored, location: String? = "/contacts/7") -> FakeUpstream {
        FakeUpstream { request, _ in
            guard !request.isUnconditional, request.text.contains("mine") else { return nil }
            return .status(412, body, location: request.method == "POST" ? location : nil)
        }
    }

    private func update(_ harness: DispatcherHarness, _ strategy: String, _ payload: String = #"{"name":"mine"}"#)
        -> Entry
    {
        harness.change(
            "update",
            server: "7",
            payload: payload,
            extra: ["conflict_resolution": #""\#(strategy)""#, "headers": #"{"If-Match":"\"v1\""}"#]
        )
    }

    @Test func `a manual conflict halts the lane`() async throws {
        let harness = try await DispatcherHarness(upstream: Self.conflicting())
        let (conflict, rest) = (update(harness, "manual"), harness.create())
        try await harness.phone.push([conflict, rest])
        let mutation = try await harness.mutation(conflict.id, is: .conflict)
        #expect(mutation.code == "conflict" && mutation.lastError != nil)
        #expect(mutation["error"]?["current"]?["document"]?.text == Self.stored)
        let lane = try await harness.lane()
        #expect(lane.haltedBy == conflict.id && lane.readyAt == nil && lane.queue.count == 1 && lane.lease.owner == nil)
        #expect(harness.upstream.requests.count == 1)
    }

    @Test func `on_conflict continue runs the other mutations`() async throws {
        let harness = try await DispatcherHarness(
            settings: #"{"on_conflict":"continue"}"#,
            upstream: Self.conflicting()
        )
        let (conflict, rest) = (update(harness, "manual"), harness.create())
        try await harness.phone.push([conflict, rest])
        try await harness.mutation(rest.id, is: .succeeded)
        #expect(try await harness.mutation(conflict.id).status == "conflict")
        #expect(try await harness.lane().haltedBy == nil)
    }

    @Test func `server_wins resolves a create and releases its dependents`() async throws {
        let upstream = Self.conflicting()
        let harness = try await DispatcherHarness(upstream: upstream)
        let contact = UUID()
        let create = harness.create(
            local: contact,
            payload: #"{"name":"mine"}"#,
            extra: ["conflict_resolution": #""server_wins""#]
        )
        let dependant = harness.create("activity", payload: #"{"contact_id":"\#(contact.lowercased)"}"#)
        try await harness.phone.push([create, dependant])
        try await harness.mutation(dependant.id, is: .succeeded)
        let discarded = try await harness.mutation(create.id)
        #expect(discarded.status == "discarded" && discarded.resolution == "server_wins")
        #expect(discarded["server_id"]?.int64 == 7)
        let mapping = try await harness.mapping(contact)
        #expect(mapping.status == .resolved && mapping.serverID == ServerID(text: "7", isInteger: true))
        #expect(upstream.requests.last?.text == #"{"contact_id":7}"#)
        let changes = try await harness.phone.pull(types: ["contact"])
        #expect(changes.first?["document"]?.text == Self.stored)
    }

    @Test(arguments: ["server_wins", "client_wins"])
    func `a strategy leaves a conflict to a person if the answer does not name the entity`(_ strategy: String)
        async throws
    {
        let error = #"{"id":"conflict","message":"taken"}"#
        let harness = try await DispatcherHarness(upstream: Self.conflicting(error, location: nil))
        let contact = UUID()
        let create = harness.create(
            local: contact,
            payload: #"{"name":"mine"}"#,
            extra: ["conflict_resolution": #""\#(strategy)""#]
        )
        try await harness.phone.push([create])
        let mutation = try await harness.mutation(create.id, is: .conflict)
        #expect(mutation["error"]?["detail"]?.string?.contains("does not identify the existing entity") == true)
        #expect(mutation["error"]?["current"] == nil)
        #expect(try await harness.mapping(contact).status == .pending)
        let settling = harness.gateway.store.settling
        let (organization, user) = (harness.organization, harness.phone.user)
        let request = try ResolveRequest(body: Array(#"{"strategy":"\#(strategy)"}"#.utf8), limits: IntakeLimits())
        await #expect(throws: Problem.self) {
            try await settling.resolve(create.id, request, organization: organization, user: user)
        }
        #expect(try await harness.phone.pull(types: ["contact"]).isEmpty)
        #expect(harness.upstream.requests.map(\.line) == ["POST /contacts"])
    }

    @Test func `a person resolves a conflict whose entity only Location identifies`() async throws {
        let harness = try await DispatcherHarness(upstream: Self.conflicting(nil))
        let contact = UUID()
        let create = harness.create(local: contact, payload: #"{"name":"mine"}"#)
        try await harness.phone.push([create])
        let mutation = try await harness.mutation(create.id, is: .conflict)
        #expect(mutation["error"]?["existing_id"]?.int64 == 7 && mutation["server_id"]?.isNull == true)
        let request = try ResolveRequest(body: Array(#"{"strategy":"server_wins"}"#.utf8), limits: IntakeLimits())
        _ = try await harness.gateway.store.settling.resolve(
            create.id,
            request,
            organization: harness.organization,
            user: harness.phone.user
        )
        #expect(try await harness.mapping(contact).serverID?.text == "7")
    }

    @Test func `client_wins is a new revision without a condition`() async throws {
        let harness = try await DispatcherHarness(upstream: Self.conflicting())
        let conflict = update(harness, "client_wins")
        try await harness.phone.push([conflict])
        let mutation = try await harness.mutation(conflict.id, is: .succeeded)
        #expect(mutation.resolution == "client_wins" && mutation["revision"]?.int64 == 2 && mutation.attempts == 1)
        let requests = harness.upstream.requests
        #expect(requests.map(\.line) == ["PATCH /contacts/7", "PUT /contacts/7"])
        #expect(requests[0].idempotencyKey != requests[1].idempotencyKey)
        #expect(requests[1].isUnconditional && requests[1].ifMatch == nil)
        #expect(requests[1].text == #"{"id":7,"name":"mine","stars":5}"#)
    }

    @Test func `a create resolved with client_wins resolves to the overwritten entity`() async throws {
        let harness = try await DispatcherHarness(upstream: Self.conflicting())
        let contact = UUID()
        let create = harness.create(
            local: contact,
            payload: #"{"name":"mine"}"#,
            extra: ["conflict_resolution": #""client_wins""#]
        )
        let update = harness.change("update", local: contact, payload: #"{"stars":1}"#)
        try await harness.phone.push([create, update])
        try await harness.mutation(update.id, is: .succeeded)
        #expect(harness.upstream.requests.map(\.line) == ["POST /contacts", "PUT /contacts/7", "PATCH /contacts/7"])
        #expect(try await harness.mapping(contact).serverID?.text == "7")
    }

    @Test func `a second conflict waits for a person`() async throws {
        let harness = try await DispatcherHarness(upstream: FakeUpstream { _, _ in .status(412, Self.stored) })
        let conflict = update(harness, "client_wins")
        try await harness.phone.push([conflict])
        let mutation = try await harness.mutation(conflict.id, is: .conflict)
        #expect(mutation["revision"]?.int64 == 2)
        #expect(harness.upstream.requests.count == 2)
        #expect(try await harness.lane().haltedBy == conflict.id)
    }
}
