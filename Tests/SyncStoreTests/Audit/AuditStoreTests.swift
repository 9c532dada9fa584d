import Foundation
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import OperatorsFeature
@testable import RetentionFeature
@testable import SyncStore

@Suite struct AuditStoreTests {
    private func act(_ organization: UUID?, _ action: String = "putUser", user: UUID? = nil) -> AuditedAction {
        var act = AuditedAction(of: organization, by: "anna", scope: .admin, action)
        act.user = user
        return act
    }

    @Test func `retention deletes old acts of all organizations, including purged ones`() async throws {
        let gateway = try await Gateway()
        let log = gateway.store.audit
        let (one, gone) = (try await gateway.organization().id, UUID())
        for organization in [one, gone, nil] {
            for _ in 0..<3 { _ = try await log.begin(act(organization)) }
        }
        gateway.clock.advance(seconds: 364 * Gateway.day)
        for organization in [one, gone, nil] { _ = try await log.begin(act(organization)) }
        #expect(try await gateway.retain(limit: 2)?.report[.audit] == 0)
        gateway.clock.advance(seconds: 2 * Gateway.day)
        #expect(try await gateway.retain(limit: 2, isDryRun: true)?.report[.audit] == 9)
        #expect(try await gateway.read("SELECT count(*) FROM audit").read(0, 0, as: Int64.self) == 12)
        #expect(try await gateway.retain(limit: 2)?.report[.audit] == 9)
        let left = try await log.page(AuditFilter(), limit: 100, after: nil)
        #expect(left.acts.count == 3 && left.next == nil)
        #expect(try await gateway.retain(RetentionPolicy(auditDays: 0.01))?.report[.audit] == 3)
    }

    /// All acts have the same millisecond, because the test clock does not advance.
    @Test func `acts of the same millisecond keep their order`() async throws {
        let gateway = try await Gateway()
        let log = gateway.store.audit
        for number in 0..<200 { _ = try await log.begin(act(nil, "act\(number)")) }
        let found = try await log.page(AuditFilter(), limit: 1_000, after: nil).acts
        #expect(found.map(\.action) == (0..<200).reversed().map { "act\($0)" })
        #expect(found.allSatisfy { UUIDv7Generator.least(at: gateway.clock.now) <= $0.id })
        let filter = AuditFilter(since: gateway.clock.now)
        #expect(try await log.page(filter, limit: 1_000, after: nil).acts.count == 200)
    }

    @Test func `truncates long texts`() async throws {
        let gateway = try await Gateway()
        let log = gateway.store.audit
        var long = AuditedAction(of: nil, by: "cli:" + String(repeating: "é", count: 100), scope: .admin, "putUser")
        long.target = [("name", String(repeating: "x", count: 10_000))]
        var outcome = AuditOutcome()
        for _ in 0..<50 { outcome.record("ids", raw: Array("[\"\(String(repeating: "x", count: 500))\"]".utf8)) }
        try await log.record(long, outcome)
        let found = try #require(try await log.page(AuditFilter(), limit: 1, after: nil).acts.first)
        #expect(found.actor.utf8.count <= 64 && found.target.count < 300 && (found.outcome?.count ?? 0) < 9_000)
    }

    /// A page reads only the rows that it examines, in small and in grown tables, without and with statistics.
    @Test(.onOneServer("plans of one server")) func `reads pages by an index`() async throws {
        let gateway = try await Gateway()
        let (one, other) = (try await gateway.organization().id, try await gateway.organization().id)
        let connection = try await gateway.database.connect()
        func check(_ comment: String) async throws {
            let bounds =
                "'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 50, 'anna', NULL, 20"
            for (statement, values) in [
                (AuditStatements.page, "'\(one)', \(bounds)"), (AuditStatements.pageOfAll, bounds),
                (
                    AuditStatements.old,
                    "'ffffffff-ffff-ffff-ffff-ffffffffffff', '00000000-0000-0000-0000-000000000000', 50"
                ),
                (AuditStatements.erase, "'\(one)', ARRAY['\(UUID())']::uuid[]"),
                (AuditStatements.eraseInto, "'\(one)', ARRAY['\(UUID())']::uuid[]"),
            ] {
                let shape = [Query.planByIndex]
                let plan = try await connection.explain(statement, values, shape)
                #expect(!plan.contains("Seq Scan on audit"), "\(comment) \(plan)")
                #expect(pages(in: plan) < 130, "\(comment) \(plan)")
            }
        }
        try await check("empty")
        try await connection.execute(
            script: """
                INSERT INTO audit (organization_id, id, at, actor, scope, action, target, user_id)
                SELECT CASE WHEN n % 100 = 0 THEN '\(one)'::uuid ELSE '\(other)'::uuid END, gen_random_uuid(), now(),
                    'otto', 'admin', 'putUser', '{}', CASE WHEN n % 2 = 0 THEN gen_random_uuid() END
                FROM generate_series(1, 20000) n
                """
        )
        try await check("grown")
        try await connection.execute(script: "ANALYZE audit")
        try await check("analysed")
        connection.close()
    }

    /// The queries that operators poll every two seconds stop after a fixed number of rows.
    @Test(.onOneServer("plans of one server")) func `queries of the current state are bounded`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        for _ in 0..<4 { try await phone.push((0..<100).map { _ in phone.create() }) }
        let connection = try await gateway.database.connect()
        for analysed in [false, true] {
            if analysed { try await connection.execute(script: "ANALYZE mutations; ANALYZE lanes") }
            for (statement, values) in [
                (NowStatements.failing, "10001"), (NowStatements.lanes, "10001, now()"),
                (NowStatements.oldest, "10000"),
                (NowStatements.firstWaiting, "'\(phone.organization.id)', '\(phone.user)'"),
                (FailureCounts.ofOrganizations, "ARRAY['\(phone.organization.id)']::uuid[], 1001"),
            ] {
                let plan = try await connection.explain(statement, values, [.planByIndex])
                #expect(!plan.contains("Seq Scan on mutations") && !plan.contains("Seq Scan on lanes"), "\(plan)")
                #expect(pages(in: plan) < 60, "\(plan)")
            }
        }
        connection.close()
    }

    @Test func `counts stop at their limit`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        for _ in 0..<6 { try await phone.push((0..<200).map { _ in phone.create() }) }
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: """
                UPDATE mutations SET status = 'failed', error = '{}', synced_at = NULL, stuck_at = now(),
                    error_code = 'upstream_rejected', error_status = 422;
                UPDATE mutations SET status = 'conflict', error_code = 'conflict', error_status = 409
                WHERE id IN (SELECT id FROM mutations ORDER BY position DESC LIMIT 5)
                """
        )
        connection.close()
        let counts = try await gateway.store.stuckCounts.counts(of: [phone.organization.id, UUID()])
        let found = try #require(counts[phone.organization.id])
        #expect(found.failed == BoundedCount(count: 1_000, isMore: true))
        #expect(found.conflict == BoundedCount(count: 5), "each status is counted separately")
        let state = try await gateway.store.nowReader.state()
        #expect(state.failed == BoundedCount(count: 1_195) && state.conflict == BoundedCount(count: 5))
    }
}
