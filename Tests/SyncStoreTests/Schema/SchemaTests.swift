import Foundation
import GroupCommit
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import EncryptionFeature
@testable import IngestFeature
@testable import OperatorsFeature
@testable import RetentionFeature
@testable import SyncStore
@testable import TransferFeature
@testable import UsersFeature
@testable import WebhooksFeature

@Suite struct SchemaTests {
    @Test func `the binary contains every migration of the folder`() throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../sql/migrations")
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".sql") }
            .sorted()
        #expect(Schema.migrations.map { $0.name + ".sql" } == files)
        for migration in Schema.migrations {
            let text = try String(contentsOf: folder.appending(path: migration.name + ".sql"), encoding: .utf8)
            #expect(migration.sql == text)
            #expect(text.hasPrefix("-- Why:"))
        }
    }

    @Test func `each published checksum is the SHA-256 of a migration of the build`() {
        for (name, checksum) in Schema.publishedChecksums {
            #expect(Schema.migrations.contains { $0.name == name && $0.publishedChecksum == checksum })
            #expect(checksum.utf8.count == 64 && checksum.allSatisfy { "0123456789abcdef".contains($0) })
        }
    }

    /// All statements of all flows.
    static let statements = StatementFlow.all.flatMap(\.statements)

    @Test(.onOneServer("the texts of one server"))
    func `prepares every statement on the migrated schema`() async throws {
        let database = try await Gateway.migratedDatabase()
        let connection = try await database.connect()
        #expect(Set(Self.statements.map(\.name)).count == Self.statements.count)
        for statement in Self.statements {
            try await connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
        }
        connection.close()
    }

    /// The statements of a group name rows by whole keys. So on a filled schema, each plan is a chain of look-ups by
    /// index, and partitions without the rows are never read.
    @Test(.onOneServer("plans of one server"))
    func `the hot statements look up rows by index and prune partitions`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        for _ in 0..<4 { try await phone.push((0..<100).map { _ in phone.create() }) }
        let connection = try await gateway.database.connect(settings: Store.hotSettings)
        for table in ["mutations", "lanes", "devices", "id_mappings", "entities", "rejections"] {
            try await connection.execute(script: "ANALYZE \(table)")
        }
        let hot = [
            LaneRows.lock, LaneRows.find, GroupStatements.devices, GroupStatements.deviceCounts,
            GroupStatements.mutationsByKey, GroupStatements.mutationsByID, GroupStatements.rejections,
            GroupStatements.mappings, GroupStatements.openByOrderKey,
            EntityStatements.lockEntities, EntityStatements.readEntities, GroupStatements.open,
            EntityStatements.lockBounded, EntityStatements.readBounded, EntityStatements.lockOwnEntities,
            EntityStatements.lockRelated,
            QuotaStatements.mutations,
        ]
        for statement in hot {
            let plan = try await explain(statement, phone, on: connection)
            #expect(!plan.contains("Seq Scan"), "\(plan)")
            #expect(!plan.contains("Hash Join") && !plan.contains("Merge Join"), "\(plan)")
            #expect(plan.contains("never executed"), "\(plan)")
        }
        connection.close()
    }

    /// An organization whose lane has one create and four hundred mutations that wait for it.
    private func forwarding(_ gateway: Gateway) async throws -> Phone {
        let organization = try await gateway.organization()
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: """
                INSERT INTO upstreams (organization_id, base_url, timeout_seconds, max_concurrency, id_pointer, headers,
                    updated_at)
                VALUES ('\(organization.id)', 'http://upstream.invalid', 30, 64, '/id', '{}', now())
                """
        )
        await connection.closeAndWait()
        gateway.store.catalog.invalidate(organization.id)
        let phone = Phone(gateway, try #require(try await gateway.store.catalog.organization(organization.id)))
        let contact = UUID()
        let payload = #"{"of":"\#(contact.lowercased)"}"#
        let endpoint = ["endpoint": #""/x""#]
        try await phone.push([phone.entry("create", local: contact, extra: endpoint)])
        for _ in 0..<4 {
            let entries = (0..<100).map { _ in
                phone.entry("create", local: UUID(), payload: payload, extra: endpoint)
            }
            try await phone.push(entries)
        }
        return phone
    }

    @Test(.onOneServer("plans of one server"))
    func `the statements of lanes look up rows by index and prune partitions`() async throws {
        let gateway = try await Gateway()
        let phone = try await forwarding(gateway)
        let connection = try await gateway.database.connect(settings: Store.hotSettings)
        for table in ["mutations", "lanes", "id_mappings", "local_ids", "entities"] {
            try await connection.execute(script: "ANALYZE \(table)")
        }
        let hot = [
            LaneStatements.heads, LaneStatements.unblock,
            LaneStatements.writeOutcomes, LaneStatements.writeCommonOutcomes, LaneStatements.markInFlight,
            LaneStatements.writeMappings, LaneStatements.writeLocalIDs, LaneStatements.inFlight,
            LaneStatements.doneBlockers, KnownIDs.statement, LocalIDStatements.find,
        ]
        for statement in hot {
            let plan = try await explain(statement, phone, on: connection)
            #expect(!plan.contains("Seq Scan"), "\(plan)")
            #expect(!plan.contains("Hash Join") && !plan.contains("Merge Join"), "\(plan)")
            #expect(plan.contains("never executed"), "\(plan)")
        }
        let write = try await explain(LaneRows.write, phone, on: connection)
        #expect(write.contains("Conflict Arbiter Indexes: lanes_pkey") && !write.contains("Seq Scan"), "\(write)")
        #expect(write.contains("Conflicting Tuples: 1"), "\(write)")
        connection.close()
    }

    /// The search of a list of dependencies, of any length, ends with the first unfinished dependency.
    @Test(.onOneServer("plans of one server"), arguments: [false, true])
    func `releasing examines only finished dependencies`(isAnalyzed: Bool) async throws {
        let gateway = try await Gateway()
        let phone = try await forwarding(gateway)
        let connection = try await gateway.database.connect(settings: Store.hotSettings)
        defer { connection.close() }
        let lane = "organization_id = '\(phone.organization.id)' AND user_id = '\(phone.user)'"
        try await connection.execute(
            script: """
                UPDATE mutations SET depends_on = depends_on
                    || (SELECT array_agg(id) FROM (SELECT id FROM mutations WHERE \(lane) ORDER BY position LIMIT 200) x)
                WHERE \(lane) AND status = 'blocked';
                \(isAnalyzed ? "ANALYZE mutations" : "")
                """
        )
        let blocker = try await connection.run(
            Query(Statement("", "SELECT id FROM mutations WHERE \(lane) AND status = 'pending'"))
        ).read(0, 0, as: UUID.self)
        let key = "'{\(phone.organization.id)}', '{\(phone.user)}', '{\(blocker)}'"
        let plan = try await connection.explain(
            LaneStatements.unblock,
            "'{0}', \(key), '{1}', '{\(BlockerRow.wholeBudget)}', '2026-11-20T07:00:00Z'"
        )
        let loops = plan.matches(of: /Index.*loops=(\d+)/).compactMap { Int($0.output.1) }
        #expect(!loops.isEmpty && loops.allSatisfy { $0 <= 400 }, "\(plan)")
    }

    /// The numbers of a page are looked up in one partition by index alone, independent of other devices' numbers.
    @Test(.onOneServer("plans of one server"))
    func `pulls look up numbers by index and prune partitions`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let (user, device) = (UUID(), UUID())
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        try await connection.execute(
            script: """
                INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
                SELECT o.id, '\(user)', d.id, 'task', n, 'server-' || n
                FROM generate_series(1, 2000) n, (VALUES ('\(organization.id)'::uuid), (gen_random_uuid())) o (id),
                    (VALUES ('\(device)'::uuid), (gen_random_uuid()), (gen_random_uuid())) d (id);
                ANALYZE local_ids;
                """
        )
        try await connection.execute(script: "VACUUM local_ids")
        let key = "'\(organization.id)', '\(user)', '\(device)'"
        let calls = [
            (
                PullStatements.numbers, "ARRAY['task'], ARRAY[1], ARRAY[3], ARRAY['server-5','server-7','x']", 1
            ),
            (PullStatements.taken, "ARRAY['task'], ARRAY[1990], ARRAY[5]", 1),
        ]
        for (statement, values, count) in calls {
            for plan in try await connection.plans(of: statement, "\(key), \(values)") {
                #expect(plan.contains("Index Only Scan") && !plan.contains("Seq Scan"), "\(plan)")
                #expect(plan.contains("Subplans Removed: 3") || plan.hasPrefix("force_custom_plan"), "\(plan)")
                #expect(plan.contains("(actual rows=\(count) loops=1)"), "\(plan)")
                #expect(pages(in: plan) < 60, "\(plan)")
            }
        }
    }

    /// The primary key begins with the same columns as the index by server ids, and the planner would consider it as
    /// good without statistics.
    @Test(.onOneServer("plans of one server"))
    func `pulls look up numbers by server ids in tables without statistics`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let (user, device) = (UUID(), UUID())
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        try await connection.execute(
            script: """
                INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
                SELECT '\(organization.id)', '\(user)', '\(device)', 'task', n, 'server-' || n
                FROM generate_series(1, 10000) n
                """
        )
        let ids = "'\(organization.id)', '\(user)', '\(device)', ARRAY['task'], ARRAY[1], ARRAY[3]"
        let values = ids + ", ARRAY['server-5','server-7','x']"
        for plan in try await connection.plans(of: PullStatements.numbers, values) {
            #expect(!plan.contains("Rows Removed by Filter: 9999") && !plan.contains("Seq Scan"), "\(plan)")
            #expect(pages(in: plan) < 60, "\(plan)")
        }
    }

    /// Finding ready lanes costs the same for any number of waiting lanes.
    @Test(.onOneServer("plans of one server")) func `does not read lanes that are not ready yet`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        try await connection.execute(
            script: """
                INSERT INTO lanes (organization_id, user_id, queued_count, open_count, ready_at)
                SELECT CASE WHEN n % 2 = 0 THEN '\(organization.id)' ELSE gen_random_uuid() END, gen_random_uuid(), 1, 1,
                    timestamptz '2026-11-20T08:00:00Z' + n * interval '1 second'
                FROM generate_series(1, 10000) n;
                INSERT INTO lanes (organization_id, user_id, queued_count, open_count, ready_at)
                SELECT '\(organization.id)', gen_random_uuid(), 1, 1, '2026-11-20T06:00:00Z' FROM generate_series(1, 5);
                ANALYZE lanes;
                """
        )
        let now = "'2026-11-20T07:00:00Z'"
        let calls = [
            (LaneStore.dueStatement, "\(now), ARRAY['\(UUID())']::uuid[], 1000"),
            (LaneStore.dueOfOrganizationStatement, "\(now), '\(organization.id)', 1000"),
        ]
        for (statement, values) in calls {
            for plan in try await connection.plans(of: statement, values) {
                #expect(plan.contains("ready_at_idx") && !plan.contains("Seq Scan"), "\(plan)")
                #expect(pages(in: plan) < 60, "\(plan)")
            }
        }
        connection.close()
    }

    /// The upstream's recent results for other users come from the last final mutations, for any number of them,
    /// without and with statistics.
    @Test(.onOneServer("plans of one server")) func `finds other users' results by their time`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        try await connection.execute(
            script: """
                INSERT INTO mutations (organization_id, user_id, id, device_id, sequence_number, position,
                    change_position, idempotency_key, fingerprint, operation, entity_type, server_id, priority,
                    max_attempts, conflict_resolution, status, created_at, accepted_at, changed_at, synced_at)
                SELECT o.id, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, n, n, gen_random_uuid(),
                    decode(repeat('00', 33), 'hex'), 'create', 'task', 'x', 0, 10, 'manual', 'succeeded', t.at, t.at,
                    t.at, t.at
                FROM generate_series(1, 10000) n,
                    (VALUES ('\(organization.id)'::uuid), (gen_random_uuid())) o (id),
                    LATERAL (SELECT timestamptz '2026-11-20T07:00:00Z' + n * interval '1 second') t (at)
                """
        )
        let values = "'\(organization.id)', '2026-11-20T07:00:00Z', '2026-11-20T07:01:00Z'"
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "ANALYZE mutations") }
            let shape = Query(LaneStore.successShape)
            for plan in try await connection.plans(of: LaneStore.successStatement, values, [shape]) {
                #expect(plan.contains("synced_at_idx") && !plan.contains("Seq Scan"), "\(plan)")
                #expect(!plan.contains("Sort Method"), "\(plan)")
                #expect(plan.contains("Rows Removed by Filter: \(LaneStore.maximumSuccessesRead)"), "\(plan)")
            }
        }
    }

    private func explain(_ statement: Statement, _ phone: Phone, on connection: Connection) async throws -> String {
        let count = statement.sql.matches(of: /\$\d+/).compactMap { Int($0.output.dropFirst()) }.max() ?? 0
        let types = try (1...count).map { number in
            let pattern = try Regex("\\$\(number)::([a-z0-9]+)\\[\\]")
            let match = try pattern.firstMatch(in: statement.sql)
            return match.flatMap { $0.output[1].substring.map(String.init) }
        }
        let values = types.enumerated().map { index, type -> String in
            switch (type, index) {
            case ("uuid", _):
                // parameters of organizations and users come first; other UUIDs may have any value
                let isOrganization = statement.sql.contains("$\(index + 1)::uuid[]") && isFirstUUID(index, types)
                let id = isOrganization ? phone.organization.id : phone.user
                return "ARRAY['\(id.uuidString)']::uuid[]"
            case ("text", _): return "ARRAY['task']"
            case ("bool", _): return "ARRAY[false]"
            case ("json", _): return "ARRAY['{}']::json[]"
            case ("timestamptz", _): return "ARRAY['2026-11-20T07:00:00Z']::timestamptz[]"
            case (let type?, _): return "ARRAY[1]::\(type)[]"
            case (nil, _) where statement.sql.contains("$\(index + 1)::int8"): return "1000"
            case (nil, _): return statement.sql.contains("LIMIT $\(index + 1)") ? "1000" : "'2026-11-20T07:00:00Z'"
            }
        }
        return try await connection.explain(statement, values.joined(separator: ","))
    }

    private func isFirstUUID(_ index: Int, _ types: [String?]) -> Bool {
        types.firstIndex { $0 == "uuid" } == index || (types.first == "uuid" && index == 3)
    }
}
