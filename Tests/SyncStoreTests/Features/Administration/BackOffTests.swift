import Foundation
import Logging
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore

/// An operator's change of an upstream ends the back-offs of its organization (product rule 11).
@Suite struct BackOffTests {
    private struct Fixture {
        let gateway: Gateway
        let organization: UUID
        let phone: Phone
        var administration: Administration { gateway.store.administration }
        /// A day from now.
        var tomorrow: Timestamp { gateway.clock.now.adding(seconds: 86_400) }

        init(_ gateway: Gateway) async throws {
            self.gateway = gateway
            organization = try await gateway.organization().id
            _ = try await gateway.store.administration.putUpstream(
                of: organization,
                UpstreamUpdate(baseURL: "http://upstream.invalid")
            )
            phone = Phone(gateway, try #require(try await gateway.store.catalog.organization(organization)))
            // the passes of this first change must not end later back-offs
            await makePasses()
        }

        func push(_ phone: Phone, _ count: Int = 1) async throws {
            try await phone.push(
                (0..<count).map { _ in
                    phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
                }
            )
        }

        /// Makes all mutations of the organization wait for their next attempt.
        func delay(since moment: Timestamp) async throws {
            try await execute(
                """
                UPDATE mutations SET next_retry_at = '\(tomorrow.rfc3339)', changed_at = '\(moment.rfc3339)', attempt_count = 1
                WHERE organization_id = '\(organization)';
                UPDATE lanes SET ready_at = '\(tomorrow.rfc3339)' WHERE organization_id = '\(organization)';
                """
            )
        }

        func execute(_ script: String) async throws {
            let connection = try await gateway.database.connect()
            try await connection.execute(script: script)
            await connection.closeAndWait()
        }

        func change() async throws {
            var update = UpstreamUpdate()
            update.isPaused = .set(false)
            _ = try await administration.putUpstream(of: organization, update)
        }

        func makePasses() async { await BackoffEnder(administration, logger: Logger(label: "test")).makePasses() }

        /// The numbers of mutations and lanes that wait for more than a minute.
        func waiting() async throws -> [Int64] {
            let connection = try await gateway.database.connect()
            defer { connection.close() }
            let soon = gateway.clock.now.adding(seconds: 60).rfc3339
            var counts: [Int64] = []
            for condition in ["mutations x WHERE x.next_retry_at", "lanes x WHERE x.ready_at"] {
                let text = "SELECT count(*) FROM \(condition) > '\(soon)' AND x.organization_id = '\(organization)'"
                counts.append(try await connection.run(Query(Statement("", text))).read(0, 0, as: Int64.self))
            }
            return counts
        }
    }

    @Test func `a change ends the back-offs of its organization alone`() async throws {
        let gateway = try await Gateway()
        let (fixture, other) = (try await Fixture(gateway), try await Fixture(gateway))
        for one in [fixture, other] {
            try await one.push(one.phone, 3)
            try await one.push(Phone(gateway, one.phone.organization))
            try await one.delay(since: gateway.clock.now.adding(seconds: -1))
        }
        try await fixture.change()
        await fixture.makePasses()
        #expect(try await fixture.waiting() == [0, 0])
        #expect(try await other.waiting() == [4, 2])
        #expect(fixture.administration.backOffRequests.pending.isEmpty)
    }

    @Test func `a pass proceeds page by page, over many lanes and over a long lane`() async throws {
        let fixture = try await Fixture(try await Gateway())
        try await fixture.push(fixture.phone, 7)
        for _ in 0..<4 { try await fixture.push(Phone(fixture.gateway, fixture.phone.organization), 2) }
        try await fixture.delay(since: fixture.gateway.clock.now.adding(seconds: -1))
        var pass = BackoffPass(of: fixture.organization, changedAt: fixture.gateway.clock.now)
        var (left, pages): (Int64, Int) = (15, 0)
        while !pass.isDone {
            try await fixture.administration.advance(&pass, lanes: 2, mutations: 4)
            let now = try await fixture.waiting()[0]
            #expect(left - now <= 4, "one transaction changed \(left - now)")
            (left, pages) = (now, pages + 1)
        }
        #expect(try await fixture.waiting() == [0, 0] && pages >= 5)
    }

    /// A pass that runs late, or again, ends no back-off that began under the new settings.
    @Test func `an attempt after the change keeps its back-off`() async throws {
        let fixture = try await Fixture(try await Gateway())
        try await fixture.push(fixture.phone)
        let changedAt = fixture.gateway.clock.now
        try await fixture.delay(since: changedAt.adding(seconds: 1))
        try await fixture.administration.endBackOffs(of: fixture.organization, changedAt: changedAt)
        #expect(try await fixture.waiting() == [1, 1])
        try await fixture.administration.endBackOffs(of: fixture.organization, changedAt: changedAt.adding(seconds: 2))
        #expect(try await fixture.waiting() == [0, 0])
    }

    @Test func `a change is accepted while a lane is locked, and its pass is repeated`() async throws {
        let fixture = try await Fixture(try await Gateway())
        try await fixture.push(fixture.phone)
        try await fixture.delay(since: fixture.gateway.clock.now.adding(seconds: -1))
        let locking = try await fixture.gateway.database.connect()
        try await locking.execute(
            script: "BEGIN; SELECT FROM lanes WHERE organization_id = '\(fixture.organization)' FOR UPDATE"
        )
        try await fixture.change()
        let pass = try #require(fixture.administration.backOffRequests.pending.first)
        #expect(pass.organization == fixture.organization)
        // the pass is stored again, as after a failure
        fixture.administration.backOffRequests.update(pass)
        #expect(fixture.administration.backOffRequests.pending.count == 1)
        await locking.closeAndWait()
        await fixture.makePasses()
        #expect(try await fixture.waiting() == [0, 0])
    }

    @Test func `a search finds the changes of other processes, but no paused upstream`() async throws {
        let gateway = try await Gateway()
        let (fixture, paused) = (try await Fixture(gateway), try await Fixture(gateway))
        var update = UpstreamUpdate()
        update.isPaused = .set(true)
        _ = try await paused.administration.putUpstream(of: paused.organization, update)
        #expect(paused.administration.backOffRequests.pending.isEmpty, "a pause ends no back-off")
        let found = try await fixture.administration.recentBackoffPasses().map(\.organization)
        #expect(found.contains(fixture.organization) && !found.contains(paused.organization))
        gateway.clock.advance(seconds: 601)
        #expect(try await fixture.administration.recentBackoffPasses().isEmpty)
    }
}
