import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import OperatorsFeature
@testable import SyncStore

/// The plans of operators' queries, for tables of any size, with and without statistics.
@Suite(.onOneServer("plans of one server")) struct FailurePlanTests {
    /// Statements with values, and the maximum number of pages that each may read in tables with thousands of rows.
    private static func calls(_ phone: Phone, _ mutation: UUID) -> [(Statement, String, Int)] {
        let organization = "'\(phone.organization.id)'"
        let lane = "\(organization), '\(phone.user)'"
        let first = "'00000000-0000-0000-0000-000000000000'"
        let last = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
        let none = "'{}', NULL, NULL, NULL"
        let conflicts = "'{conflict}', NULL, NULL, NULL"
        let newest = "'infinity', \(last), \(last), \(last)"
        let newestOfOne = "\(organization), 'infinity', \(last), \(last), 'infinity'"
        let group = "'task', 'upstream_rejected', 422::int2"
        let story = "\(lane), '\(mutation)'"
        let oldest = "\(organization), '-infinity', \(first), \(first), 'infinity'"
        let operation = "\(organization), \(first)"
        let ids = "ARRAY['\(mutation)', \(first)]::uuid[]"
        func page(_ statements: FailureStatements, _ path: FailureQuery.Path) -> Statement { statements.page(path) }
        func edge(_ statements: FailureStatements, _ path: FailureQuery.Path) -> Statement {
            statements.edge(path) ?? FailureStatements.noEdge
        }
        let groups: [(Statement, String, Int)] = [
            (FailureGroups.ownersStatement, "\(first), \(last), 101", 400),
            (
                FailureGroups.groupsStatement,
                "ARRAY[\(organization)]::uuid[], '{\"\"}', '{\"\"}', '{-1}', 200, 101, 10001, \(none)", 20_000
            ),
            // a page stops when it is full, and a search stops at its limit
            (page(.newest, .everywhere), "\(newest), 10000, \(none), 21", 300),
            (edge(.newest, .everywhere), "\(newest), 100", 400),
            (page(.newest, .organization), "\(newestOfOne), 10000, \(none), 21", 300),
            (edge(.newest, .organization), "\(newestOfOne), 100", 400),
            (page(.newest, .group), "\(newestOfOne), \(group), 10000, \(none), 21", 300),
            (edge(.newest, .group), "\(newestOfOne), \(group), 100", 400),
            (page(.newest, .user), "\(newestOfOne), '\(phone.user)', 50000, \(none), 21", 300),
            // these statements read the groups one by one, and the next mutation of each group
            (page(.newest, .someGroups), "\(newestOfOne), 10000, \(conflicts), 21", 1_500),
            (edge(.newest, .someGroups), "\(newestOfOne), 10000", 500),
            (page(.newest, .someGroupsOfAll), "\(newest), 10000, \(conflicts), 21", 1_500),
            (edge(.newest, .someGroupsOfAll), "\(newest), 10000", 500),
            (NowStatements.failing, "101", 1_500),
            (FailureCounts.ofOrganizations, "ARRAY[\(organization)]::uuid[], 101", 2_500),
        ]
        // final mutations with equal times are sorted, and all of them have the same time here; other pages and edges
        // stop with their rows
        let from = "\(organization), 'infinity', \(last), \(last)"
        let recent: [(Statement, String, Int)] = [
            (
                RecentStatements.page, "\(from), '-infinity', \(first), \(first), 1000, '{}', NULL, NULL, NULL, 21",
                9_000
            ),
            (RecentStatements.edge, "\(from), '{}', 100", 6_500),
            (RecentStatements.pageOfUser, "\(lane), 9223372036854775807, 10000, '{}', NULL, NULL, NULL, 21", 300),
            (RecentStatements.edgeOfUser, "\(lane), 9223372036854775807, 100", 300),
            (RecentStatements.one, story, 100), (RecentStatements.edgeOfLanes, "\(organization), \(first), 100", 300),
            (EntityListing.recent, "\(organization), 9223372036854775807, 21", 100),
            (EntityListing.ofType, "\(organization), 'task', NULL, 21", 100),
            (EntityListing.one, "\(organization), 'task', 'x'", 100),
            (Throughput.completed, "\(organization), now() - interval '1 hour', 12, 300, 101", 500),
        ]
        let stories: [(Statement, String, Int)] = [
            (
                FailureList.byIDStatement,
                "\(organization), ARRAY['\(phone.user)']::uuid[], ARRAY['\(mutation)']::uuid[]", 100
            ),
            // an index orders the rows of each partition, of which the first is read; equal times are sorted
            (StoppedLanes.halted, "\(organization), \(first), now(), 21", 100),
            (StoppedLanes.haltedOfAll, "\(first), \(first), now(), 21", 200),
            (StoppedLanes.waiting, "\(organization), \(last), now(), 21", 100),
            (StoppedLanes.waitingOfAll, "\(last), \(last), now(), 21", 200),
            (LaneListing.laneStatement, lane, 100), (LaneListing.pageStatement, "\(lane), 0, 21", 200),
            (UserExplainer.isKnownStatement, lane, 100),
            (MutationHistoryStatements.queued, story, 100), (MutationHistoryStatements.attempts, story, 100),
            (MutationHistoryStatements.waitsFor, story, 100), (MutationHistoryStatements.waiters, story, 300),
            (MutationHistoryStatements.ahead, story, 300), (MutationHistoryStatements.entity, story, 100),
            (MutationHistoryStatements.history, story, 300),
            (MutationHistoryStatements.resolved, "\(lane), ARRAY['\(mutation)']::uuid[]", 100),
        ]
        let operations: [(Statement, String, Int)] = [
            (page(.oldest, .organization), "\(oldest), 5000, \(none), 20", 300),
            (edge(.oldest, .organization), "\(oldest), 100", 400),
            (page(.oldest, .group), "\(oldest), \(group), 5000, \(none), 20", 300),
            (edge(.oldest, .group), "\(oldest), \(group), 100", 400),
            (page(.oldest, .someGroups), "\(oldest), 5000, \(conflicts), 20", 1_500),
            (edge(.oldest, .someGroups), "\(oldest), 5000", 500),
            (page(.oldest, .ids), "\(oldest), \(ids), \(none), NULL, 20", 300),
            (page(.oldest, .user), "\(oldest), '\(phone.user)', 50000, \(none), 20", 300),
            // these statements read the rows that they count
            (FailureStatements.count(.organization), "\(organization), 'infinity', \(none)", 20_000),
            (FailureStatements.count(.group), "\(organization), 'infinity', \(group), \(none)", 400),
            (FailureStatements.count(.someGroups), "\(organization), 'infinity', \(conflicts)", 5_000),
            (FailureStatements.count(.ids), "\(organization), 'infinity', \(ids), \(none), NULL", 300),
            (FailureStatements.count(.user), "\(organization), 'infinity', '\(phone.user)', \(none)", 300),
            (OperationStatements.running, "\(organization), 20", 100), (OperationStatements.find, operation, 100),
            (OperationStatements.listOfOrganization, "\(organization), 'infinity', \(last), \(last), NULL, 21", 300),
            (OperationStatements.listOfAll, "\(first), 'infinity', \(last), \(last), NULL, 21", 300),
            (OperationStatements.due, "'2026-11-20T07:00:00Z', 16, '{}'", 200),
            (OperationStatements.claim, "\(operation), '2026-11-20T07:00:00Z', \(first), now(), now()", 100),
            (OperationStatements.count, "\(operation), 1, now()", 100),
            (OperationStatements.advance, "\(operation), 1, 0, 0, '{}', NULL, NULL, NULL, now(), now()", 100),
            (OperationStatements.end, "\(operation), 1, 'done', NULL, now()", 100),
            (OperationStatements.release, "\(operation), 1, now()", 100),
            (OperationStatements.cancel, "\(operation), now()", 100),
            (OperationStatements.prune, "'2020-01-01T00:00:00Z', 1000", 200),
        ]
        return groups + recent + stories + operations
    }

    @Test(arguments: [false, true]) func `no query reads more than it returns`(isLarge: Bool) async throws {
        let phone = try await Phone.forwarding()
        let entry = try await phone.pushStuck(30)[7]
        try await phone.push((0..<60).map { _ in phone.forward("create", local: UUID()) })
        if isLarge {
            try await phone.fillStuck(12_000)
            try await Self.fill(phone)
        }
        let connection = try await phone.gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "ANALYZE") }
            for (statement, values, most) in Self.calls(phone, entry.id) {
                let shape = [Query.planByIndex]
                for plan in try await connection.plans(of: statement, values, shape) {
                    #expect(!plan.contains("Seq Scan"), "\(plan)")
                    #expect(pages(in: plan) < most, "\(pages(in: plan)) \(plan)")
                }
            }
        }
    }

    @Test func `looks an id up in one lane after another`() async throws {
        let phone = try await Phone.forwarding()
        let entry = try await phone.pushStuck(1)[0]
        try await Self.fill(phone)
        let connection = try await phone.gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        let first = "'00000000-0000-0000-0000-000000000000'"
        let values = "'\(phone.organization.id)', \(first), 100, '\(entry.id)', 21"
        let shape = [Query.planByIndex, Query(Pool.orderShape)]
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "ANALYZE") }
            for plan in try await connection.plans(of: RecentStatements.pageOfID, values, shape) {
                #expect(!plan.contains("Seq Scan"), "\(plan)")
                // each of the hundred lanes is one look-up
                #expect(pages(in: plan) < 700, "\(pages(in: plan)) \(plan)")
            }
        }
    }

    @Test func `reads the mutations of an organization in the order of an index`() async throws {
        let phone = try await Phone.forwarding()
        try await phone.pushStuck(3)
        let connection = try await phone.gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        let first = "'00000000-0000-0000-0000-000000000000'"
        let start = "'\(phone.organization.id)', \(first), 0"
        let all = "'ffffffff-ffff-ffff-ffff-ffffffffffff', \(Int64.max)"
        let end = "'\(phone.organization.id)', \(all)"
        let calls = [
            (MutationReader.organizationEdgeStatement, "\(start), 100", 400),
            (
                MutationReader.organizationStatement,
                "\(start), \(all), '{conflict}', NULL, NULL, NULL, 21, 2097152", 2_000
            ),
        ]
        let shape = [Query.planByIndex, Query(Pool.orderShape)]
        let bulk = "'{failed}', NULL, NULL, NULL, '{}', true, 500"
        let bulkCalls = [
            (SettleCandidates.edgeAfter, "\(start), 100", 400),
            (SettleCandidates.edgeBefore, "\(end), 100", 400),
            (SettleCandidates.pageAfter, "\(start), \(all), \(bulk)", 20_000),
            (SettleCandidates.pageBefore, "\(end), \(first), 0, \(bulk)", 20_000),
        ]
        for state in ["small", "grown", "analyzed"] {
            if state == "grown" { try await phone.fillStuck(12_000) }
            if state == "analyzed" { try await connection.execute(script: "ANALYZE mutations") }
            for (statement, values, most) in calls + bulkCalls {
                for plan in try await connection.plans(of: statement, values, shape) {
                    #expect(!plan.contains("Seq Scan"), "\(state) \(plan)")
                    #expect(plan.contains("position_idx"), "\(state) \(plan)")
                    #expect(pages(in: plan) < most, "\(state) \(pages(in: plan)) \(plan)")
                }
            }
        }
    }

    /// Thousands of other users' attempts, halted lanes, waiting lanes and operations.
    private static func fill(_ phone: Phone) async throws {
        try await phone.execute(
            """
            INSERT INTO attempts (organization_id, user_id, mutation_id, slot, ordinal, revision, number, sent_at, outcome)
            SELECT '\(phone.organization.id)', gen_random_uuid(), gen_random_uuid(), 1, 1, 1, 1, now(), 'retry'
            FROM generate_series(1, 5000);
            INSERT INTO lanes (organization_id, user_id, halted_by, ready_at)
            SELECT '\(phone.organization.id)', gen_random_uuid(), CASE WHEN n % 2 = 0 THEN gen_random_uuid() END,
                CASE WHEN n % 2 = 1 THEN timestamptz '2100-01-01T00:00:00Z' + n * interval '1 second' END
            FROM generate_series(1, 12000) n;
            INSERT INTO operations (organization_id, id, kind, statuses, reason, actor, per_second, state, due_at,
                created_at, changed_at, ended_at)
            SELECT o.id, gen_random_uuid(), 'retry', '{}', 'x', 'anna', 50, CASE WHEN n > 3000 THEN 'running' ELSE 'done' END,
                CASE WHEN n > 3000 THEN timestamptz '2026-11-20T08:00:00Z' + n * interval '1 second' END,
                timestamptz '2026-11-20T08:00:00Z' + n * interval '1 second', now(),
                CASE WHEN n <= 3000 THEN timestamptz '2026-11-20T08:00:00Z' + n * interval '1 second' END
            FROM generate_series(1, 4000) n, organizations o
            """
        )
    }
}
