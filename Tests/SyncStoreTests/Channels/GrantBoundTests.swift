import AdministrationFeature
import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Small documents that grant many channels: each of these teams makes 200 grants.
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
}
