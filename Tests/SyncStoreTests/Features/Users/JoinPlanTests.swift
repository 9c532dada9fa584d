import Foundation
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore
@testable import UsersFeature

/// The plans of the statements of a join, for tables of any size, with and without statistics.
@Suite(.onOneServer("plans of one server")) struct JoinPlanTests {
    @Test(arguments: [false, true]) func `a join reads only the rows of its users`(isLarge: Bool) async throws {
        let one = try await Phone.forwarding()
        let other = Phone(one.gateway, one.organization)
        for phone in [one, other] {
            for _ in 0..<2 { try await phone.push((0..<50).map { _ in phone.forward("create", local: UUID()) }) }
        }
        if isLarge { try await Self.fill(one) }
        let connection = try await one.gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        let (organization, user, target) = (
            "'\(one.organization.id)'", "'\(one.user)'", "'\(other.user)'"
        )
        let parties = "\(organization), \(user), \(target)"
        let keys = "ARRAY['task', 'task'], ARRAY['1', '2']"
        var calls: [(Statement, String)] = [
            (JoinStatements.facts, "\(parties), '0017', 60"),
            (JoinStatements.related, "\(organization), ARRAY[\(user), \(target)]::uuid[]"),
            (JoinStatements.leaveLanes, "\(organization), \(user)"), (JoinStatements.followers, parties),
            (JoinStatements.lockEntities, "\(organization), \(user), \(keys)"),
            (JoinStatements.ownEntities, "\(parties), \(keys)"),
            (JoinStatements.lockUnseen, "\(organization), \(user), \(keys), 1000"),
            (JoinStatements.show, "\(organization), \(keys), 2000"),
            (EntityScan.named, "\(organization), \(user), 0, 20000, 50"),
            (EntityScan.unseen, "\(organization), \(user), 0, 20000, 50"),
        ]
        let rows = MergedRows(Gateway.tables)
        calls += [(rows.count, "\(organization), \(user)"), (rows.collisions, parties)]
        for move in rows.moves {
            let values = move.values?.map { $0 == .now ? "'2036-01-01T00:00:00Z'" : "1000" }
            calls.append(
                (move.statement, values.map { ([parties] + $0).joined(separator: ", ") } ?? "\(organization), \(user)")
            )
        }
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "ANALYZE") }
            for (statement, values) in calls {
                let shape = Query.planByIndex
                for plan in try await connection.plans(of: statement, values, [shape]) {
                    // the list of gateways is in a small table
                    let seen = plan.replacing(/.*Seq Scan on gateways.*/, with: "")
                    #expect(!seen.contains("Seq Scan") && !seen.contains("Hash Join"), "\(plan)")
                    #expect(!seen.contains("Merge Join"), "\(plan)")
                    if statement.name.hasPrefix("entity_walk"), isLarge {
                        #expect(pages(in: plan) < 200, "\(plan)")
                    }
                }
            }
        }
    }

    /// Adds thousands of other users' rows.
    static func fill(_ phone: Phone) async throws {
        let organization = "'\(phone.organization.id)'::uuid"
        try await phone.execute(
            """
            INSERT INTO mutations (organization_id, user_id, id, device_id, sequence_number, position,
                change_position, idempotency_key, fingerprint, operation, entity_type, server_id, priority,
                max_attempts, conflict_resolution, status, created_at, accepted_at, changed_at, synced_at)
            SELECT \(organization), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, n, n, gen_random_uuid(),
                decode(repeat('00', 33), 'hex'), 'create', 'task', 'x', 0, 10, 'manual', 'succeeded', now(), now(),
                now(), now()
            FROM generate_series(1, 5000) n;
            INSERT INTO id_mappings (organization_id, user_id, client_id, entity_type, status, mutation_id,
                change_position, created_at)
            SELECT \(organization), gen_random_uuid(), gen_random_uuid(), 'task', 'pending', gen_random_uuid(), n, now()
            FROM generate_series(1, 5000) n;
            INSERT INTO entities (organization_id, entity_type, id, version, document, feed_position, owner_id,
                updated_by, updated_on, run_base, created_at, updated_at)
            SELECT \(organization), 'task', n::text, 1, '{}', 10000 + n, u.id, u.id, u.id, 0, now(), now()
            FROM generate_series(1, 5000) n, LATERAL (SELECT gen_random_uuid()) u (id);
            INSERT INTO users (organization_id, user_id, created_at)
            SELECT \(organization), gen_random_uuid(), now() FROM generate_series(1, 5000);
            INSERT INTO devices (organization_id, user_id, device_id, accepted_sequence, created_at, last_seen_at)
            SELECT \(organization), gen_random_uuid(), gen_random_uuid(), 1, now(), now()
            FROM generate_series(1, 5000);
            INSERT INTO user_joins (organization_id, user_id, into_id, started_at, feed_end, finished_at)
            SELECT \(organization), gen_random_uuid(), gen_random_uuid(), now(), 1, now()
            FROM generate_series(1, 2000)
            """
        )
    }
}
