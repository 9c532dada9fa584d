import AdministrationFeature
import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Lanes of users who hold many channels: a step reads only the channels on which its decisions depend.
@Suite struct ChannelLaneTests {
    private static let count = 300

    private static func declare(_ type: String, upstream: Bool, _ harness: DispatcherHarness) async throws {
        let settings = #"{"visibility":"channels","channels":["team/{/team}"],"upstream":\#(upstream)}"#
        let update = try EntityTypeUpdate(body: Array(settings.utf8))
        _ = try await harness.gateway.store.administration.putEntityType(type, in: harness.organization.id, update)
    }

    /// Grants the channels `team/1`, `team/2` and so on.
    private static func grant(_ count: Int, to user: UUID, _ harness: DispatcherHarness) async throws {
        try await harness.execute(
            """
            UPDATE feeds SET last_position = last_position + 1 WHERE organization_id = '\(harness.organization.id)';
            INSERT INTO channel_grants (organization_id, user_id, channel, source, since, name, role, changed_at)
            SELECT '\(harness.organization.id)', '\(user)',
                encode(substring(sha256(convert_to('team/' || n, 'UTF8')) FOR 16), 'hex')::uuid, 'operator', 1, 'team/' || n,
                CASE WHEN n = 2 THEN 'read' ELSE 'write' END, 1
            FROM generate_series(1, \(count)) n
            """
        )
    }

    @Test(arguments: ["lane", "dependencies"])
    func `a mutation that waited has the rights of the user's channels`(order: String) async throws {
        let gate = Gate()
        let harness = try await DispatcherHarness(
            settings: #"{"order":"\#(order)"}"#,
            upstream: FakeUpstream { request, _ in
                if request.text.contains("wait") { await gate.pass() }
                return nil
            }
        )
        try await Self.declare("note", upstream: false, harness)
        let bob = harness.newPhone()
        for user in [harness.phone.user, bob.user] { try await Self.grant(Self.count, to: user, harness) }
        try await Self.grant(1, to: UUID(), harness)
        _ = try await harness.gateway.store.administration.grantChannel(
            "team/0",
            to: bob.user,
            .write,
            in: harness.organization.id
        )
        var ids: [String] = []
        for team in [7, 2, 0] {
            let made = try await bob.push([bob.create("note", payload: #"{"team":\#(team == 2 ? 3 : team)}"#)])
            ids.append(try #require(made.results[0].serverID))
        }
        // the second one moves to a channel in which this user may only read
        let moved = bob.entry("update", "note", server: #""\#(ids[1])""#, payload: #"{"team":2}"#)
        #expect(try await bob.push([moved]).results[0].status == "succeeded")
        let client = UUID()
        let first = harness.create(local: client, payload: #"{"wait":1}"#)
        let extra = ["dependency_ids": #"["\#(first.id.lowercased)"]"#]
        let updates = ids.map {
            harness.phone.entry("update", "note", server: #""\#($0)""#, payload: #"{"n":1}"#, extra: extra)
        }
        let creates = [9, 2, 0].map {
            harness.phone.entry("create", "note", local: UUID(), payload: #"{"team":\#($0)}"#, extra: extra)
        }
        let answer = try await harness.phone.push([first] + updates + creates)
        #expect(answer.results.allSatisfy { ["pending", "blocked"].contains($0.status) })
        await gate.arrivals(1)
        gate.open()
        for entries in [updates, creates] {
            #expect(try await harness.mutation(entries[0].id, is: .succeeded).code == nil)
            #expect(try await harness.mutation(entries[1].id, is: .failed).code == "forbidden")
        }
        let hidden = try await harness.mutation(updates[2].id, is: .failed)
        #expect(hidden.code == "upstream_rejected", "as for an unknown id: \(hidden.text)")
        #expect(try await harness.mutation(creates[2].id, is: .failed).code == "forbidden")
    }

    /// The feed's version of an entity that the user sees by a grant is compared before anything is sent.
    @Test(arguments: ["lane", "dependencies"], [1, count])
    func `a forwarded mutation on an earlier version is a conflict`(order: String, count: Int) async throws {
        let harness = try await DispatcherHarness(settings: #"{"order":"\#(order)"}"#)
        try await Self.declare("contact", upstream: true, harness)
        try await Self.grant(count, to: harness.phone.user, harness)
        let organization = try await harness.gateway.known(harness.organization.id)
        let source = EventSource(harness.gateway, organization)
        for version in 1...2 {
            let document = #"{"team":1,"n":\#(version)}"#
            let event = EventSource.event("e\(version)", of: "contact", "7", version: Int64(version), document)
            #expect(try await source.results([event]) == ["applied"])
        }
        let update = harness.change("update", server: "7", payload: "{}", extra: ["base_version": "1"])
        try await harness.phone.push([update])
        try await harness.mutation(update.id, is: .conflict)
        #expect(harness.upstream.requests.isEmpty)
    }
}
