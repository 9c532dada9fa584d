import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Lanes with thousands of open mutations, because the upstream is unavailable or a mutation waits for a person.
@Suite struct DeepLaneTests {
    private func submit(_ phone: Phone, _ entries: [Entry]) async throws -> PushAnswer {
        let list = entries.map(\.json).joined(separator: ",")
        let body = #"{"device_id":"\#(phone.device.lowercased)","mutations":[\#(list)]}"#
        return try await phone.gateway.store.pushes.submit(
            try PushRequest(body: Array(body.utf8), limits: IntakeLimits()),
            organization: phone.organization,
            user: phone.user,
            isStrict: false
        )
    }

    private func edits(_ phone: Phone, _ count: Int, server: String) -> [Entry] {
        (0..<count).map { _ in phone.forward("update", server: server) }
    }

    // MARK: - Settled mutations

    @Test func `edits of an entity that was created during an outage of the upstream are not settled`() async throws {
        let phone = try await Phone.forwarding()
        let contact = UUID()
        let create = phone.forward("create", local: contact)
        let answer = try await submit(phone, [create] + (0..<249).map { _ in phone.forward("update", local: contact) })
        #expect(answer.unsettled.count == 250)
        let next = try await submit(phone, (0..<50).map { _ in phone.forward("update", local: contact) })
        #expect(next.unsettled.count == 50 && next.stuck.isEmpty)
        // once the create has failed, only a person can continue the waiting and the later edits
        try await phone.leave(create.id, "failed")
        let more = try await submit(phone, (0..<50).map { _ in phone.forward("update", local: contact) })
        #expect(more.unsettled.isEmpty && more.stuck.count == 50)
        let waited = try await phone.gateway.store.mutations.refresh(
            answer,
            organization: phone.organization,
            user: phone.user,
            wait: .seconds(60)
        )
        #expect(waited.unsettled.isEmpty && waited.stuck.count == 249)
    }

    /// The path from the last edit to the conflict is longer than the limit.
    @Test(arguments: ["conflict", "failed"])
    func `edits that follow many edits of a stuck mutation are settled`(_ status: String) async throws {
        let phone = try await Phone.forwarding()
        let first = phone.forward("update", server: #""e1""#)
        try await phone.push([first])
        for _ in 0..<3 { try await phone.push(edits(phone, 300, server: #""e1""#)) }
        #expect(900 > FailureSearcher.wayLimit)
        try await phone.leave(first.id, status)
        let other = phone.forward("update", server: #""e2""#)
        let answer = try await submit(phone, edits(phone, 50, server: #""e1""#) + [other])
        #expect(answer.stuck.count == 50)
        #expect(answer.unsettled == [other.id])
        // reading one of the edits does not wait
        let last = try #require(answer.verdicts.compactMap(\.record).first)
        let found = try await phone.gateway.store.mutations.mutation(
            last.id,
            organization: phone.organization,
            user: phone.user,
            wait: .seconds(60)
        )
        #expect(try #require(found).record.status == .blocked)
    }

    /// If the search reaches its limit, and no mutation of the same entity is stuck, the mutation counts as not
    /// settled.
    @Test func `a mutation with too long a path of dependencies counts as not settled`() async throws {
        let phone = try await Phone.forwarding()
        let failed = phone.forward("create", local: UUID())
        try await phone.push([failed])
        try await phone.leave(failed.id, "failed")
        var last = failed.id
        for _ in 0..<2 {
            let entries = (0..<(FailureSearcher.wayLimit - 50)).map { _ in
                let entry = phone.forward("create", local: UUID(), needs: [last])
                last = entry.id
                return entry
            }
            let answer = try await submit(phone, entries)
            #expect(answer.stuck.count == entries.count)
        }
        let beyond = try await submit(phone, [phone.forward("create", local: UUID(), needs: [last])])
        #expect(beyond.stuck.isEmpty && beyond.unsettled.count == 1)
    }

    @Test func `a failed look-up omits only its own mutations`() async throws {
        let phone = try await Phone.forwarding()
        let create = phone.forward("create", local: UUID())
        try await phone.push([create])
        try await phone.leave(create.id, "failed")
        let edits = [phone.forward("update", local: create.local), phone.forward("update", local: create.local)]
        let answer = try await submit(phone, edits)
        #expect(answer.stuck.count == 2)
        let nowhere = Pool(
            configuration: ConnectionConfiguration(uri: "postgresql://127.0.0.1:1/nowhere"),
            maximum: 1,
            acquireTimeout: .seconds(30)
        )
        let blind = FailureSearcher(pool: nowhere, failure: StoreFailure(logger: phone.gateway.store.logger))
        let stuck = await blind.stuck(
            among: answer.verdicts,
            organization: phone.organization.id,
            user: phone.user
        )
        #expect(stuck.isEmpty)
        await nowhere.close()
    }

    // MARK: - Plans

    /// SQL that adds ten thousand edits of one entity to a table without statistics. Each edit waits for the previous
    /// edit, and the last edit has not received the server id yet.
    private static func fill(_ phone: Phone, count: Int) -> String {
        """
        INSERT INTO mutations (organization_id, user_id, id, device_id, sequence_number, position, change_position,
            idempotency_key, fingerprint, operation, entity_type, local_id, server_id, priority, max_attempts,
            conflict_resolution, status, depends_on, blocked_on, created_at, accepted_at, changed_at)
        SELECT '\(phone.organization.id)', '\(phone.user)', \(id("n")), '\(phone.device)', n, n, n, gen_random_uuid(),
            decode(repeat('00', 33), 'hex'), 'update', 'task', '\(phone.device)',
            CASE WHEN n < \(count) THEN 'e1' END, 0, 10, 'manual',
            CASE WHEN n = 1 THEN 'pending' ELSE 'blocked' END,
            CASE WHEN n = 1 THEN '{}' ELSE ARRAY[\(id("n - 1"))] END, CASE WHEN n > 1 THEN \(id("n - 1")) END,
            now(), now(), now()
        FROM generate_series(1, \(count)) n;
        INSERT INTO lanes (organization_id, user_id, next_position, queued_count, open_count)
        VALUES ('\(phone.organization.id)', '\(phone.user)', \(count + 1), 1, \(count))
        """
    }

    private static func id(_ number: String) -> String {
        "('00000000-0000-4000-8000-' || lpad(to_hex(\(number)), 12, '0'))::uuid"
    }

    /// The plans are made while the tables are empty, and used when they are full.
    @Test(.onOneServer("plans of one server")) func `never scans a deep lane`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let count = 10_000
        let lane = "'\(phone.organization.id)', '\(phone.user)'"
        let arrays = "ARRAY['\(phone.organization.id)'::uuid], ARRAY['\(phone.user)'::uuid]"
        let last = Self.id("\(count)")
        let looks = [
            (
                FailureSearcher.walkStatement, "\(lane), ARRAY[\(last)], \(FailureSearcher.wayLimit + 1)",
                Store.pooledSettings,
                1_500
            ),
            (FailureSearcher.frontStatement, lane, Store.pooledSettings, 1_000),
            (
                GroupStatements.open,
                "ARRAY[0], \(arrays), ARRAY['task'], ARRAY[NULL::uuid], ARRAY['e1']", Store.hotSettings, 60
            ),
            (
                GroupStatements.openByOrderKey, "ARRAY[0], \(arrays), ARRAY['k1']", Store.hotSettings, 60
            ),
            (
                LaneStatements.due, "ARRAY[0], \(arrays), ARRAY[1::int8], ARRAY[16], now()", Store.hotSettings, 60
            ),
            (LaneStatements.windows, "ARRAY[0], \(arrays), ARRAY[1::int8], now()", Store.hotSettings, 60),
            (LaneStatements.heads, "ARRAY[0], \(arrays), ARRAY[2::int8]", Store.hotSettings, 60),
            (LaneStatements.inFlight, "ARRAY[0], \(arrays), ARRAY[1::int8]", Store.hotSettings, 60),
            (
                KnownIDs.statement,
                "\(arrays), ARRAY['\(phone.device)'::uuid], ARRAY['task'], ARRAY['e1'], ARRAY[false]",
                Store.hotSettings, 60
            ),
        ]
        var connections: [Connection] = []
        for (statement, values, settings, _) in looks {
            let connection = try await gateway.database.connect(settings: settings)
            _ = try await connection.run([.begin, Query.planByIndex])
            try await connection.execute(script: "PREPARE looked AS \(statement.sql)")
            try await connection.execute(script: "EXECUTE looked(\(values)); COMMIT")
            connections.append(connection)
        }
        try await phone.execute(Self.fill(phone, count: count))
        for ((statement, values, _, limit), connection) in zip(looks, connections) {
            let plan = try await connection.explain("looked(\(values))", [.planByIndex])
            #expect(!plan.contains("Seq Scan on mutations"), "\(statement.name):\n\(plan)")
            #expect(pages(in: plan) < limit, "\(statement.name):\n\(plan)")
            connection.close()
        }
    }
}
