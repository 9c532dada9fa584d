import AdministrationFeature
import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import RetentionFeature
@testable import SyncStore

/// Ends of grants, and of entities' stays in channels, in organizations that delete no entities.
@Suite struct ChannelRetentionTests {
    /// A user who may write to three channels, and an entity in the first of them.
    private struct Fixture {
        let gateway: Gateway
        let phone: Phone
        let id: String
        var administration: Administration { gateway.store.administration }

        init(_ gateway: Gateway) async throws {
            self.gateway = gateway
            let organization = try await gateway.organization().id
            let rules = #"{"visibility":"channels","channels":["t/{/p}"]}"#
            let update = try EntityTypeUpdate(body: Array(rules.utf8))
            _ = try await gateway.store.administration.putEntityType("team", in: organization, update)
            phone = Phone(gateway, try await gateway.known(organization))
            for name in ["t/a", "t/b", "t/c"] {
                _ = try await gateway.store.administration.grantChannel(name, to: phone.user, .write, in: organization)
            }
            let made = try await phone.push([phone.create("team", payload: #"{"p":"a"}"#)])
            id = try #require(made.results[0].serverID)
        }

        /// Moves the entity to a channel, which ends its stay in the present channel.
        func move(to channel: String) async throws {
            let entry = phone.entry("update", "team", server: #""\#(id)""#, payload: #"{"p":"\#(channel)"}"#)
            #expect(try await phone.push([entry]).results[0].status == "succeeded")
        }

        func revoke(_ channel: String) async throws {
            _ = try await administration.revokeChannel(channel, from: phone.user, in: phone.organization.id)
        }

        func cursor() async throws -> String? { try await phone.changes(since: nil, limit: 100).next }

        /// The numbers of ended stays and ended grants.
        func ends() async throws -> [Int] {
            let stays = try await gateway.count("ended_stays", of: phone.organization.id)
            let rows = try await gateway.read(
                """
                SELECT count(*) AS count FROM channel_grants
                WHERE organization_id = '\(phone.organization.id.lowercased)' AND until IS NOT NULL
                """
            )
            return [Int(stays), try rows.read { Int(try $0.read("count", as: Int64.self)) }[0]]
        }
    }

    @Test func `ends are deleted after the storage period, although no entity is deleted`() async throws {
        let gateway = try await Gateway()
        let (fixture, other) = (try await Fixture(gateway), try await Fixture(gateway))
        let old = try await fixture.cursor()
        try await fixture.move(to: "b")
        try await fixture.revoke("t/c")
        #expect(try await gateway.retain()?.report[.channels] == 0)
        let noted = try await fixture.cursor()
        gateway.clock.advance(seconds: 20 * Gateway.day)
        for one in [fixture, other] { try await one.move(to: "c"); try await one.revoke("t/a") }
        #expect(try await gateway.retain()?.report[.channels] == 0)
        #expect(try await fixture.ends() == [2, 2])
        gateway.clock.advance(seconds: 10 * Gateway.day + 1)
        #expect(try await gateway.retain(isDryRun: true)?.report[.channels] == 2)
        #expect(try await gateway.retain(limit: 1)?.report[.channels] == 2)
        #expect(try await fixture.ends() == [1, 1])
        #expect(try await other.ends() == [1, 1])
        // only a cursor from before the notes of that time starts over
        await #expect { try await fixture.phone.pull(since: old) } throws: { ($0 as? Problem)?.code == .cursorExpired }
        #expect(try await fixture.phone.pull(since: noted).contains { $0["removed"]?.bool == true })
        gateway.clock.advance(seconds: 20 * Gateway.day)
        #expect(try await gateway.retain()?.report[.channels] == 4)
        #expect(try await fixture.ends() + other.ends() == [0, 0, 0, 0])
    }

    @Test func `a revoked channel is not shown after the end of its grant is deleted`() async throws {
        let gateway = try await Gateway()
        let fixture = try await Fixture(gateway)
        try await fixture.move(to: "b")
        // caches the user's channels
        #expect(try await fixture.phone.pull().count == 1)
        try await fixture.revoke("t/b")
        _ = try await gateway.retain()
        gateway.clock.advance(seconds: 31 * Gateway.day)
        #expect(try await gateway.retain()?.report[.channels] == 2)
        #expect(try await fixture.phone.pull().isEmpty)
    }

    @Test func `the feed's position is noted once a day, while there are ends`() async throws {
        let gateway = try await Gateway()
        let fixture = try await Fixture(gateway)
        func notes() async throws -> Int64? {
            try await gateway.read(
                """
                SELECT cardinality(feed_positions)::int8 AS count FROM retention_places
                WHERE organization_id = '\(fixture.phone.organization.id.lowercased)'
                """
            ).read { try $0.read("count", as: Int64.self) }.first
        }
        _ = try await gateway.retain()
        #expect(try await notes() ?? 0 == 0, "nothing has ended")
        try await fixture.move(to: "b")
        for day in 1...32 {
            for _ in 0..<3 { _ = try await gateway.retain() }
            #expect(try await notes() == Int64(min(day, 31)))
            gateway.clock.advance(seconds: Gateway.day)
        }
        #expect(try await fixture.ends()[0] == 0)
    }

    @Test func `the end of a grant remains while its user holds the channel again`() async throws {
        let gateway = try await Gateway()
        let fixture = try await Fixture(gateway)
        try await fixture.revoke("t/c")
        let organization = fixture.phone.organization.id
        _ = try await fixture.administration.grantChannel("t/c", to: fixture.phone.user, .read, in: organization)
        _ = try await gateway.retain()
        gateway.clock.advance(seconds: 31 * Gateway.day)
        #expect(try await gateway.retain(isDryRun: true)?.report[.channels] == 0)
        #expect(try await gateway.retain()?.report[.channels] == 0)
        #expect(try await fixture.ends() == [0, 1])
    }
}
