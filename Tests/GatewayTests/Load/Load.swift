import Foundation
import GatewaySupport
import JSONText
import Postgres
import TestSupport
import Testing

/// Devices of several users in several organizations push concurrently while other devices follow the feeds. A test
/// disturbs the gateways or PostgreSQL, and afterwards checks that all data are the same as without disturbances.
struct Load {
    /// An organization and the document that all its devices write to.
    struct Tenant {
        let organization: UUID
        let tally: String
        let follower: FeedFollower
    }

    let seed: UInt64
    let database: TestDatabase
    let gateways: [GatewayProcess]
    let tenants: [Tenant]
    let workers: [RetryingWorker]
    /// Counts the acknowledged batches.
    let done = Milestones()
    let batches: Int

    static let mutationsPerDevice: Int64 = 80

    /// Two organizations of two users with two devices each.
    init(seed: UInt64, on database: TestDatabase, gateways: [GatewayProcess]) async throws {
        print("seed of the load: \(seed)")
        var random = SeededRandom(seed)
        let replicas = gateways.map(\.address)
        var tenants: [Tenant] = []
        var workers: [RetryingWorker] = []
        for limit in [3, 50] {
            let organization = random.uuid()
            try await gateways[0].makeOrganization(organization)
            let tally = try await Self.makeTally(organization, replicas[0])
            let follower = FeedFollower(organization: organization, replicas: replicas, limit: limit)
            tenants.append(Tenant(organization: organization, tally: tally, follower: follower))
            for user in [random.uuid(), random.uuid()] {
                for _ in 0..<2 {
                    let outbox = Outbox(
                        organization: organization,
                        user: user,
                        tally: tally,
                        mutations: Self.mutationsPerDevice,
                        random: SeededRandom(random.next())
                    )
                    workers.append(
                        try await RetryingWorker(
                            outbox,
                            replicas: replicas,
                            done: done,
                            random: SeededRandom(random.next())
                        )
                    )
                }
            }
        }
        self.seed = seed
        self.database = database
        self.gateways = gateways
        self.tenants = tenants
        self.workers = workers
        var batches = 0
        for worker in workers { batches += worker.outbox.batches.count }
        self.batches = batches
    }

    private static func makeTally(_ organization: UUID, _ address: String) async throws -> String {
        let draft = Draft(members: [
            "id": UUID().quoted, "idempotency_key": UUID().quoted, "local_id": UUID().quoted, "sequence_number": "1",
            "operation": #""create""#, "entity_type": #""tally""#, "payload": "{}",
            "created_at": #""2026-11-18T07:00:00.000Z""#,
        ])
        let reply = try await GatewayProcess.post(
            address + "/v1/mutations",
            token: try await GatewayProcess.token(organization: organization, user: UUID()),
            body: #"{"device_id":\#(UUID().quoted),"mutations":[\#(draft.json)]}"#
        )
        return try #require(reply.results.first?["server_id"]?.string, "\(reply.text)")
    }

    /// Runs the whole load.
    ///
    /// - Parameter disturbances: executed in order, each at a separate time during the load.
    func run(_ disturbances: [@Sendable () async throws -> Void]) async throws {
        var random = SeededRandom(seed &+ 1)
        let moments = disturbances.indices.map { _ in Int.random(in: batches / 20..<batches * 17 / 20, using: &random) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [done] in
                for (moment, disturb) in zip(moments.sorted(), disturbances) {
                    await done.reach(moment)
                    try await disturb()
                }
            }
            for tenant in tenants { group.addTask { [done] in try await tenant.follower.run(until: done) } }
            group.addTask { [done, workers] in
                defer { done.finish() }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for worker in workers { group.addTask { try await worker.run() } }
                    try await group.waitForAll()
                }
            }
            try await group.waitForAll()
        }
    }

    /// The number of retries of workers.
    var setbacks: Int {
        get async {
            var count = 0
            for worker in workers { count += await worker.setbacks }
            return count
        }
    }

    /// Expects that all data exist exactly once and in order, in the workers' responses, in the feeds and in
    /// PostgreSQL.
    func expectAllOnceAndInOrder() async throws {
        let connection = try await database.connect()
        defer { connection.close() }
        for tenant in tenants { try await expect(tenant) }
        for worker in workers { try await expect(worker, on: connection) }
        try await expectTotals(on: connection)
    }

    // MARK: - The feed

    private func expect(_ tenant: Tenant) async throws {
        let token = try await GatewayProcess.token(organization: tenant.organization, user: UUID())
        let reply = try await GatewayProcess.get(
            gateways[0].address + "/v1/changes?limit=1000",
            token: token
        )
        #expect(reply.isUpToDate == true)
        var feed: [String: FeedFollower.Entity] = [:]
        for change in reply.changes {
            let document = change["deleted"]?.bool == true ? nil : change["document"]?.text
            let type = try #require(change["entity_type"]?.string)
            let version = try #require(change["version"]?.int64)
            let id = try #require(change["id"]?.string)
            let entity = FeedFollower.Entity(type: type, version: version, document: document)
            #expect(feed.updateValue(entity, forKey: id) == nil, "\(id) is in the feed twice, seed \(seed)")
        }
        #expect(await tenant.follower.violations == [], "seed \(seed)")
        #expect(await tenant.follower.entities == feed, "the follower has received everything, seed \(seed)")

        var expected: [String: (type: String, version: Int64, members: [String: String]?)] = [:]
        var tallied: [UUID] = []
        for worker in workers where worker.outbox.organization == tenant.organization {
            tallied += worker.outbox.tallied
            for (id, entity) in try await worker.expectedEntities() { expected[id] = entity }
        }
        let marks = tallied.map { ($0.lowercased, "true") }
        let members = Dictionary(uniqueKeysWithValues: marks)
        expected[tenant.tally] = ("tally", Int64(tallied.count) + 1, members)
        #expect(Set(feed.keys) == Set(expected.keys), "seed \(seed)")
        for (id, entity) in feed {
            #expect(entity.type == expected[id]?.type, "seed \(seed)")
            #expect(entity.version == expected[id]?.version, "\(entity.type) \(id), seed \(seed)")
            #expect(entity.members == expected[id]?.members, "\(entity.type) \(id), seed \(seed)")
        }
    }

    // MARK: - A worker and its lane

    private func expect(_ worker: RetryingWorker, on connection: Connection) async throws {
        let outbox = worker.outbox
        #expect(await worker.violations == [], "seed \(seed)")
        let acknowledged = await worker.acknowledged
        let drafts = outbox.batches.joined()
        #expect(Set(acknowledged.keys) == Set(drafts.map(\.id)), "every mutation is acknowledged, seed \(seed)")

        let path = "/v1/mutations?device_id=\(outbox.device.lowercased)&limit=1000"
        let list = try await GatewayProcess.get(gateways[0].address + path, token: worker.token).mutations
        #expect(list.map { $0["id"]?.string } == drafts.map(\.id), "the lane's order is the device's, seed \(seed)")

        let rows = try await connection.run(
            Query(
                Statement(
                    "load_device_\(outbox.device.lowercased)",
                    """
                    SELECT id, sequence_number, server_id::text, version, revision, status FROM mutations
                    WHERE organization_id = '\(outbox.organization)' AND user_id = '\(outbox.user)'
                        AND device_id = '\(outbox.device)'
                    ORDER BY position
                    """
                )
            )
        )
        #expect(rows.count == Int(outbox.count))
        for row in 0..<rows.count {
            let id = try rows.read(row, 0, as: UUID.self).lowercased
            let acknowledgement = acknowledged[id]
            #expect(
                try rows.read(row, 1, as: Int64.self) == Int64(row) + 1,
                "position and sequence disagree, seed \(seed)"
            )
            #expect(try rows.read(row, 2, as: String.self) == acknowledgement?.serverID, "\(id), seed \(seed)")
            #expect(try rows.read(row, 3, as: Int64.self) == acknowledgement?.version, "\(id), seed \(seed)")
            #expect(try rows.read(row, 4, as: Int32.self) == 1)
            #expect(try rows.read(row, 5, as: String.self) == "succeeded")
        }
    }

    // MARK: - The database

    /// Consistency of row counts over the whole database.
    private func expectTotals(on connection: Connection) async throws {
        var (mutations, creates) = (0, 0)
        for worker in workers {
            mutations += Int(worker.outbox.count)
            creates += worker.outbox.entities.count
        }
        let expected: [(String, Int)] = [
            ("FROM mutations", mutations + tenants.count),
            ("FROM mutations WHERE operation = 'create'", creates + tenants.count),
            ("FROM entities", creates + tenants.count),
            ("FROM id_mappings WHERE status = 'resolved'", creates + tenants.count),
            ("FROM id_mappings", creates + tenants.count),
            ("FROM rejections", 0),
            ("FROM devices", workers.count + tenants.count),
            ("FROM users", workers.count / 2 + tenants.count),
            ("FROM devices WHERE accepted_sequence = \(Self.mutationsPerDevice)", workers.count),
            ("FROM lanes WHERE open_count <> 0 OR queued_count <> 0 OR halted_by IS NOT NULL", 0),
            // a lane's positions are 1, 2, 3…
            (
                """
                FROM lanes l WHERE next_position - 1 <> (
                    SELECT count(*) FROM mutations m
                    WHERE m.organization_id = l.organization_id AND m.user_id = l.user_id
                        AND m.position BETWEEN 1 AND l.next_position - 1
                )
                """, 0
            ),
            // an entity's version counts its writes
            (
                """
                FROM entities e WHERE version <> (
                    SELECT count(*) FROM mutations m
                    WHERE m.organization_id = e.organization_id AND m.server_id = e.id
                )
                """, 0
            ),
            (
                "FROM feeds f WHERE last_position < (SELECT count(*) FROM entities e WHERE organization_id = f.organization_id)",
                0
            ),
            ("FROM entities e JOIN feeds f USING (organization_id) WHERE e.feed_position > f.last_position", 0),
        ]
        for (index, (clause, count)) in expected.enumerated() {
            let rows = try await connection.run(Query(Statement("load_\(index)", "SELECT count(*) \(clause)")))
            #expect(try rows.read(0, 0, as: Int64.self) == Int64(count), "\(clause), seed \(seed)")
        }
    }
}

extension RetryingWorker {
    /// The entities that only this device wrote, by server id, with client ids replaced by the server ids in its
    /// responses.
    func expectedEntities() throws -> [String: (type: String, version: Int64, members: [String: String]?)] {
        var serverIDs: [String: String] = [:]
        for draft in outbox.batches.joined() where draft["operation"] == #""create""# {
            serverIDs[draft["local_id"] ?? ""] = try #require(acknowledged[draft.id]).serverID
        }
        var entities: [String: (type: String, version: Int64, members: [String: String]?)] = [:]
        for entity in outbox.entities {
            let id = try #require(serverIDs[entity.localID.quoted])
            let members = entity.document.mapValues { text in
                serverIDs.reduce(text) { $0.replacingOccurrences(of: $1.key, with: #""\#($1.value)""#) }
            }
            entities[id] = (entity.type, entity.version, entity.isDeleted ? nil : members)
        }
        return entities
    }
}

extension FeedFollower.Entity {
    /// The document's members as texts, in any order; nil for a tombstone.
    var members: [String: String]? {
        guard let document, let members = try? JSONTree(parsing: Array(document.utf8)).root.members else { return nil }
        return Dictionary(uniqueKeysWithValues: members.map { ($0.name.string, $0.value.text) })
    }
}
