import Foundation
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore
@testable import UsersFeature

/// The plans of the statements of an erasure and of an export, for tables of any size, with and without statistics.
@Suite(.onOneServer("plans of one server")) struct ErasurePlanTests {
    @Test(arguments: [false, true]) func `an erasure and an export read only their user's rows`(
        isLarge: Bool
    ) async throws {
        let one = try await Phone.forwarding()
        for _ in 0..<2 { try await one.push((0..<50).map { _ in one.forward("create", local: UUID()) }) }
        if isLarge {
            try await JoinPlanTests.fill(one)
            try await Self.fill(one)
        }
        let connection = try await one.gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        let organization = "'\(one.organization.id)'"
        let lane = "\(organization), '\(one.user)'"
        let hash = "'\\x\(String(repeating: "ab", count: 32))'::bytea"
        let keys = "ARRAY['task', 'task'], ARRAY['1', '2']"
        let nobody = "'\(UUID.least)'::uuid"
        var calls: [(Statement, String)] = [
            (ErasureStatements.facts, "\(lane), '0020', 60"), (ErasureStatements.find, "\(organization), \(hash)"),
            (ErasureStatements.lockEntities, "\(lane), \(keys), ARRAY['\(one.user)']::uuid[], 8388608"),
            (ErasureStatements.writeEntities, "\(lane), \(keys), ARRAY[true, false], 2000, \(nobody), now()"),
            (ErasureStatements.move, "\(organization), \(hash), 'entities', 5, now()"),
            (ErasureStatements.fail, "\(organization), \(hash), 'x', now()"),
            (ErasureStatements.lock, "\(organization), \(hash)"),
            (ErasureStatements.finish, "\(organization), \(hash), now()"),
            (ErasureStatements.due, "now(), 8, '{}', true"),
            (ErasureStatements.claim, "\(organization), \(hash), now(), now()"),
            (ErasedUsers.statement, "ARRAY[\(organization)]::uuid[], now() - interval '10 minutes'"),
            (ErasedUsers.lookUp, "\(organization), \(hash)"),
            (ExportedRows.joinFacts, lane), (ExportedRows.entities, "\(organization), \(keys), '\(one.user)'"),
        ]
        let users = "ARRAY['\(one.user)']::uuid[]"
        let rows = ErasedRows(Gateway.tables)
        for table in rows.batches {
            calls.append((table.delete, "\(lane), \(hash), 1000"))
            if let keep = table.keep {
                calls.append((keep, "\(organization), \(hash), ARRAY[\(hash)], ARRAY[\(hash)]"))
            }
        }
        for statement in rows.withLane { calls.append((statement, lane)) }
        for statement in rows.last { calls.append((statement, "\(organization), \(users)")) }
        let firstKeys = ["''", "'\(UUID.least)'"]
        #expect(rows.walks.count == firstKeys.count, "add a key for each table that an erasure scans")
        for (table, key) in zip(rows.walks, firstKeys) {
            calls.append((table.scan.find, "\(organization), \(users), \(key), \(key), 50"))
            calls.append((table.delete, "\(organization), ARRAY[\(key)]::text[], ARRAY[\(key)]::text[], \(users)"))
        }
        for table in Gateway.tables {
            guard case .scan(_, let statement, _) = table.export else { continue }
            let key = "ARRAY['\(UUID.least)']::text[]"
            calls.append((statement, "\(organization), \(key), \(key), \(users)"))
        }
        let firsts = ["uuid": "'\(UUID.least)'", "text": "''", "bigint": "'0'", "smallint": "'0'"]
        for rows in Gateway.tables.compactMap(ExportedRows.init) {
            calls.append((rows.first, "\(lane), 25"))
            let last = rows.lines.order.map { firsts[$0.type] ?? "" }.joined(separator: ", ")
            calls.append((rows.next, "\(lane), \(last), 25"))
        }
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "ANALYZE") }
            for (statement, values) in calls {
                let shape = Query.planByIndex
                for plan in try await connection.plans(of: statement, values, [shape]) {
                    // the list of gateways, the progress of retention and the salts are in small tables
                    let seen = plan.replacing(/.*Seq Scan on (gateways|retention_places|erasure_salts).*/, with: "")
                    #expect(!seen.contains("Seq Scan") && !seen.contains("Hash Join"), "\(plan)")
                    #expect(!seen.contains("Merge Join"), "\(plan)")
                    if isLarge { #expect(pages(in: plan) < 3_000, "\(plan)") }
                }
            }
        }
    }

    /// Adds thousands of other users' rows to the tables of erasures, and to tables that the tests of joins do not
    /// fill.
    private static func fill(_ phone: Phone) async throws {
        let organization = "'\(phone.organization.id)'::uuid"
        try await phone.execute(
            """
            INSERT INTO user_erasures (organization_id, user_hash, started_at, state, finished_at)
            SELECT \(organization), sha256(n::text::bytea), now() - interval '1 day', 'done', now()
            FROM generate_series(1, 5000) n;
            INSERT INTO erased_names (organization_id, user_hash, name_hash)
            SELECT \(organization), sha256(n::text::bytea), sha256(n::text::bytea) FROM generate_series(1, 5000) n;
            INSERT INTO erased_subjects (organization_id, subject_hash, user_hash)
            SELECT \(organization), sha256(n::text::bytea), sha256(n::text::bytea) FROM generate_series(1, 5000) n;
            INSERT INTO user_subjects (organization_id, issuer, subject, user_id, created_at)
            SELECT \(organization), 'i', n::text, gen_random_uuid(), now() FROM generate_series(1, 5000) n;
            INSERT INTO rejections (organization_id, user_id, idempotency_key, device_id, sequence_number, error,
                rejected_at)
            SELECT \(organization), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), n, '{}', now()
            FROM generate_series(1, 5000) n;
            INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
            SELECT \(organization), gen_random_uuid(), gen_random_uuid(), 'task', n, n::text
            FROM generate_series(1, 5000) n;
            INSERT INTO parked_events (organization_id, source, event_id, entity_type, id, id_is_integer, operation,
                received_at, look_at)
            SELECT \(organization), 'crm', n::text, 'task', n::text, false, 'delete', now(), now()
            FROM generate_series(1, 5000) n;
            INSERT INTO webhook_deliveries (organization_id, endpoint_id, id, event, data, occurred_at, status,
                tried_since, next_attempt_at)
            SELECT \(organization), gen_random_uuid(), gen_random_uuid(), 'lane.halted', '{}', now(), 'waiting', now(),
                now()
            FROM generate_series(1, 5000) n
            """
        )
    }
}
