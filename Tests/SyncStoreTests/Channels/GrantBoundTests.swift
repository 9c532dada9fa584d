import AdministrationFeature
import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Small documents that grant many channels, or are in many: each of these teams makes 200 grants.
@Suite struct GrantBoundTests {
    private static let rules =
        #""channels":["user/{owner}"],"grants":[{"user":"/u","channels":["g/{/g}"],"role":"read"}]"#
    private static let document: String = {
        let users = (0..<10).map { _ in #""\#(UUID().lowercased)""# }.joined(separator: ",")
        let channels = (0..<20).map { #""\#($0)""# }.joined(separator: ",")
        return #"{"u":[\#(users)],"g":[\#(channels)]}"#
    }()

    private let gateway: Gateway

    init() async throws { gateway = try await Gateway() }

    private func declare(_ settings: String, in organization: UUID) async throws {
        let update = try EntityTypeUpdate(body: Array("{\(settings)}".utf8))
        _ = try await gateway.store.administration.putEntityType("team", in: organization, update)
    }

    private func organization() async throws -> Organization {
        let id = try await gateway.organization().id
        try await declare(#""visibility":"channels",\#(Self.rules)"#, in: id)
        return try await gateway.known(id)
    }

    private func teams(_ count: Int, by phone: Phone) -> [Entry] {
        (0..<count).map { _ in phone.create("team", payload: Self.document) }
    }

    /// The present grants of an organization, by the transaction in which they began.
    private func grants(in organization: Organization) async throws -> [Int] {
        let rows = try await gateway.read(
            """
            SELECT count(*) AS count FROM channel_grants
            WHERE organization_id = '\(organization.id.lowercased)' AND until IS NULL GROUP BY since ORDER BY since
            """
        )
        return try rows.read { Int(try $0.read("count", as: Int64.self)) }
    }

    private func expectTooMany(_ entries: [Entry], from phone: Phone) async {
        let problem = await #expect(throws: Problem.self) { try await phone.push(entries) }
        #expect(problem?.code == .payloadTooLarge && problem?.retryAfter == nil)
        #expect(problem?.detail.contains("\(WorkBounds.pushGrants) grants") == true, "\(problem?.detail ?? "")")
    }

    @Test func `a push that begins or ends too many grants is refused and changes nothing`() async throws {
        let organization = try await organization()
        let phone = Phone(gateway, organization)
        let entries = teams(51, by: phone)
        await expectTooMany(entries, from: phone)
        #expect(try await grants(in: organization) == [])
        #expect(try await gateway.count("entities", of: organization.id) == 0)
        let made =
            try await phone.push(Array(entries.prefix(50))).results.compactMap(\.serverID)
            + phone.push(Array(entries.suffix(1))).results.compactMap(\.serverID)
        #expect(made.count == 51)
        #expect(try await grants(in: organization) == [10_000, 200])
        let deletions = made.map { phone.entry("delete", "team", server: #""\#($0)""#) }
        await expectTooMany(deletions, from: phone)
        #expect(try await grants(in: organization) == [10_000, 200])
        try await phone.push(Array(deletions.prefix(50)))
        #expect(try await grants(in: organization) == [200])
    }

    @Test func `two grants that last count as one`() async throws {
        let organization = try await organization()
        let phone = Phone(gateway, organization)
        let made =
            try await phone.push(teams(50, by: phone)).results.compactMap(\.serverID)
            + phone.push(teams(50, by: phone)).results.compactMap(\.serverID)
        let updates = made.map { phone.entry("update", "team", server: #""\#($0)""#, payload: #"{"n":1}"#) }
        let results = try await phone.push(updates).results
        #expect(results.count == 100 && results.allSatisfy { $0.status == "succeeded" })
        #expect(try await grants(in: organization) == [10_000, 10_000])
    }

    @Test func `several writes of an entity count once`() async throws {
        let organization = try await organization()
        let phone = Phone(gateway, organization)
        let made = try await phone.push(teams(1, by: phone)).results[0].serverID
        let id = try #require(made)
        let updates = (0..<60).map { number in
            phone.entry("update", "team", server: #""\#(id)""#, payload: #"{"n":\#(number)}"#)
        }
        let results = try await phone.push(updates).results
        #expect(results.allSatisfy { $0["status"]?.string == "succeeded" })
        #expect(try await grants(in: organization) == [200])
    }

    @Test func `pushes of two organizations with many grants are committed in several groups`() async throws {
        let organizations = [try await organization(), try await organization()]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<30 {
                let phone = Phone(gateway, organizations[number % 2])
                group.addTask { _ = try await phone.push(teams(1, by: phone)) }
            }
            try await group.waitForAll()
        }
        for organization in organizations {
            let made = try await grants(in: organization)
            #expect(made.reduce(0, +) == 3_000 && made.allSatisfy { $0 <= WorkBounds.groupGrants }, "\(made)")
        }
    }

    @Test func `a batch of events with many grants is taken in parts`() async throws {
        let organization = try await organization()
        let events = (0..<60).map { EventSource.event("e\($0)", of: "team", "\($0)", version: 1, Self.document) }
        let results = try await EventSource(gateway, organization).results(events)
        #expect(results == Array(repeating: "applied", count: 60))
        let made = try await grants(in: organization)
        #expect(made.reduce(0, +) == 12_000 && made.allSatisfy { $0 <= WorkBounds.pushGrants }, "\(made)")
    }

    @Test func `a step of an evaluation ends after some grants`() async throws {
        let organization = try await gateway.organization()
        try await declare(#""visibility":"organization""#, in: organization.id)
        let events = (0..<25).map { EventSource.event("e\($0)", of: "team", "\($0)", version: 1, Self.document) }
        _ = try await EventSource(gateway, try await gateway.known(organization.id)).send(events)
        try await declare(#""visibility":"channels",\#(Self.rules)"#, in: organization.id)
        var examined: [Int] = []
        var last: String? = ""
        while let after = last {
            let step = try await gateway.store.channelEvaluation.step(of: "team", in: organization.id, after: after)
            examined.append(step?.examined ?? 0)
            last = step?.next
        }
        #expect(examined == [10, 10, 5])
        #expect(try await grants(in: organization) == [2_000, 2_000, 1_000])
    }

    // MARK: - Stays

    private static let places = #""visibility":"channels","channels":["{/p}/{/c}"]"#

    /// A document in 32 channels.
    private static func placed(_ prefix: String) -> String {
        let names = (0..<32).map { #""\#($0)""# }.joined(separator: ",")
        return #"{"p":"\#(prefix)","c":[\#(names)]}"#
    }

    /// An organization with entities in 32 channels each, and a phone whose user may write them.
    private func places(_ count: Int) async throws -> (organization: Organization, phone: Phone, ids: [String]) {
        let id = try await gateway.organization().id
        try await declare(Self.places, in: id)
        let organization = try await gateway.known(id)
        let phone = Phone(gateway, organization)
        for prefix in ["a", "b"] {
            _ = try await gateway.store.administration.grantChannel("\(prefix)/1", to: phone.user, .write, in: id)
        }
        var ids: [String] = []
        while ids.count < count {
            let entries = (0..<min(500, count - ids.count)).map { _ in
                phone.create("team", payload: Self.placed("a"))
            }
            ids += try await phone.push(entries).results.compactMap(\.serverID)
        }
        return (organization, phone, ids)
    }

    @Test func `a push that changes too many stays is refused and changes nothing`() async throws {
        let (organization, phone, ids) = try await places(626)
        #expect(ids.count == 626)
        let updates = ids.map { phone.entry("update", "team", server: #""\#($0)""#, payload: #"{"n":1}"#) }
        let moves = ids.map { phone.entry("update", "team", server: #""\#($0)""#, payload: #"{"p":"b"}"#) }
        var limits = IntakeLimits()
        limits.mutations = 1_000
        let problem = await #expect(throws: Problem.self) { try await phone.push(moves, limits: limits) }
        #expect(problem?.code == .payloadTooLarge && problem?.retryAfter == nil)
        #expect(problem?.detail.contains("\(WorkBounds.pushStays) channels") == true, "\(problem?.detail ?? "")")
        #expect(try await gateway.count("ended_stays", of: organization.id) == 0)
        // an entity that stays where it is changes half as many rows
        for entries in [updates, Array(moves.prefix(625))] {
            let results = try await phone.push(entries, limits: limits).results
            #expect(results.allSatisfy { $0.status == "succeeded" })
        }
        #expect(try await gateway.count("ended_stays", of: organization.id) == 625 * 32)
        #expect(try await gateway.count("entity_channels", of: organization.id) == 626 * 32)
    }

    @Test func `pushes with many stays are committed in several groups`() async throws {
        let id = try await gateway.organization().id
        try await declare(Self.places, in: id)
        let organization = try await gateway.known(id)
        let phones = (0..<30).map { _ in Phone(gateway, organization) }
        for phone in phones {
            _ = try await gateway.store.administration.grantChannel("a/1", to: phone.user, .write, in: id)
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for phone in phones {
                let entries = (0..<30).map { _ in phone.create("team", payload: Self.placed("a")) }
                group.addTask { _ = try await phone.push(entries) }
            }
            try await group.waitForAll()
        }
        // a stay begins at the last position of its transaction
        let made = try await stays(in: organization)
        #expect(made.reduce(0, +) == 30 * 30 * 32 && made.allSatisfy { $0 <= WorkBounds.groupStays }, "\(made)")
    }

    @Test func `a batch of events with many stays is taken in parts`() async throws {
        let id = try await gateway.organization().id
        try await declare(Self.places, in: id)
        let organization = try await gateway.known(id)
        // at first 32 stays of each entity begin, and then as many end, too
        for (version, prefix) in [(1, "a"), (2, "b")] as [(Int64, String)] {
            let events = (0..<500).map { number in
                let id = "\(prefix)\(number)"
                return EventSource.event(id, of: "team", "\(number)", version: version, Self.placed(prefix))
            }
            let results = try await EventSource(gateway, organization).results(events)
            #expect(results == Array(repeating: "applied", count: 500))
            let made = try await stays(in: organization)
            #expect(made.reduce(0, +) == 500 * 32 && (made.count > 1) == (version == 2), "\(made)")
        }
    }

    @Test func `a step of an evaluation ends after some stays`() async throws {
        let (organization, _, _) = try await places(200)
        try await declare(#""channels":["other/{/c}"]"#, in: organization.id)
        var examined: [Int] = []
        var last: String? = ""
        while let after = last {
            let step = try await gateway.store.channelEvaluation.step(of: "team", in: organization.id, after: after)
            examined.append(step?.examined ?? 0)
            last = step?.next
        }
        // 64 stays of each entity begin or end
        #expect(examined == [125, 75], "\(examined)")
        #expect(try await gateway.count("ended_stays", of: organization.id) == 200 * 32)
    }

    /// The present stays of an organization, by the transaction in which they began.
    private func stays(in organization: Organization) async throws -> [Int] {
        let rows = try await gateway.read(
            """
            SELECT count(*) AS count FROM entity_channels
            WHERE organization_id = '\(organization.id.lowercased)' GROUP BY joined_at ORDER BY joined_at
            """
        )
        return try rows.read { Int(try $0.read("count", as: Int64.self)) }
    }

    // MARK: - Previews

    @Test func `a preview ends after its time`() async throws {
        let organization = try await gateway.organization()
        try await declare(#""visibility":"organization""#, in: organization.id)
        let count = 2 * ChannelEvaluation.previewPart + 20
        let events = (0..<count).map { EventSource.event("e\($0)", of: "team", "\($0)", version: 1, #"{"g":1}"#) }
        _ = try await EventSource(gateway, try await gateway.known(organization.id)).send(events)
        let update = try EntityTypeUpdate(body: Array(#"{"visibility":"channels","channels":["g/{/g}"]}"#.utf8))
        let next = try await gateway.store.administration.entityType("team", in: organization.id, after: update)
        var evaluation = gateway.store.channelEvaluation
        let whole = try await evaluation.preview(#require(next), in: organization.id)
        #expect(whole.examined == count && whole.changed == count && whole.entities.count == Int64(count))
        for time in [Duration.zero, .seconds(-1)] {
            evaluation.previewTime = time
            let cut = try await evaluation.preview(#require(next), in: organization.id)
            #expect(cut.examined == ChannelEvaluation.previewPart, "one part is always examined")
            #expect(cut.entities.count == Int64(count) && cut.changed == cut.examined)
        }
        // all are deleted except the last in the order of ids
        let deletions = (0..<count).filter { $0 != 99 }
            .map { EventSource.event("d\($0)", "delete", of: "team", "\($0)", version: 2) }
        _ = try await EventSource(gateway, try await gateway.known(organization.id)).send(deletions)
        let cut = try await evaluation.preview(#require(next), in: organization.id)
        #expect(cut.examined == 0 && cut.entities.count == 1, "tombstones take time, too")
    }
}
