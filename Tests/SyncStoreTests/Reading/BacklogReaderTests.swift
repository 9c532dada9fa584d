import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

@Suite(.serialized) struct BacklogReaderTests {
    private static let open: [MutationStatus] = [.pending, .blocked, .inFlight, .conflict, .failed]

    private static func backlog(_ phone: Phone) async throws -> Backlog {
        try await phone.gateway.store.backlog.backlog(organization: phone.organization.id, user: phone.user)
    }

    private static func total(_ counts: Backlog.Counts) -> Int64 {
        open.map { counts[$0] }.reduce(0, +)
    }

    @Test func `a backlog is a consistent snapshot while devices push and an operator settles`() async throws {
        let seed = Seed()
        var generator = seed.generator
        let first = try await Phone.forwarding()
        let replica = try await Gateway(replicaOf: first.gateway)
        let phones = [first.gateway, replica, first.gateway].map { Phone($0, first.organization, user: first.user) }
        let writers = Countdown(phones.count)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for phone in phones {
                var generator = generator.split()
                group.addTask {
                    defer { writers.finishOne() }
                    for _ in 0..<15 {
                        let local = generator.uuid()
                        let create = phone.forward("create", local: local, payload: "{}")
                        let update = phone.forward("update", local: local, payload: "{}")
                        try await phone.push([create, update])
                        if generator.oneIn(2) { _ = try await phone.discard(create.id, .discard) }
                    }
                }
            }
            group.addTask {
                repeat {
                    let backlog = try await Self.backlog(phones[0])
                    let devices = backlog.devices
                    for status in Self.open {
                        let sum = devices.map { $0.counts[status] }.reduce(0, +)
                        #expect(sum == backlog.counts[status], "\(seed)")
                    }
                    // each create is followed by its update, and both appear and disappear together
                    #expect(backlog.counts[.pending] == backlog.counts[.blocked], "\(seed)")
                    let oldest = devices.compactMap(\.oldestPending).min { $0.position < $1.position }
                    #expect(backlog.head?.id == oldest?.id, "\(seed)")
                    #expect(backlog.head == nil || backlog.head?.status == .pending, "\(seed)")
                    for device in devices {
                        #expect((device.oldestPending == nil) == (Self.total(device.counts) == 0), "\(seed)")
                        #expect(device.oldestPending.map { $0.deviceID == device.id } ?? true, "\(seed)")
                    }
                } while !writers.isOver
            }
            try await group.waitForAll()
        }
        #expect(try await Self.backlog(phones[0]).devices.count == 3)
    }

    @Test func `a backlog excludes final mutations, and a failed mutation does not block the lane`() async throws {
        let phone = try await Phone.forwarding()
        let entries = (0..<3).map { _ in phone.forward("create", local: UUID(), payload: "{}") }
        try await phone.push(entries)
        try await phone.leave(entries[0].id, "succeeded", "response_status = 201")
        try await phone.leave(entries[1].id, "failed")
        var backlog = try await Self.backlog(phone)
        #expect(backlog.counts[.pending] == 1 && backlog.counts[.failed] == 1 && Self.total(backlog.counts) == 2)
        #expect(backlog.head?.id == entries[2].id && backlog.blocker == nil)
        #expect(backlog.devices.first?.oldestPending?.id == entries[2].id)
        _ = try await phone.discard(entries[2].id)
        backlog = try await Self.backlog(phone)
        #expect(Self.total(backlog.counts) == 1)
        #expect(backlog.head == nil && backlog.blocker == nil)
        #expect(backlog.devices.first?.oldestPending == nil)
    }

    @Test func `a retried mutation becomes the head at its previous position`() async throws {
        let phone = try await Phone.forwarding()
        let entries = (0..<3).map { _ in phone.forward("create", local: UUID(), payload: "{}") }
        try await phone.push(entries)
        try await phone.leave(entries[0].id, "failed")
        try await phone.execute("UPDATE lanes SET head_position = 2 WHERE \(phone.owner)")
        #expect(try await Self.backlog(phone).head?.id == entries[1].id)
        _ = try await phone.retry(entries[0].id)
        #expect(try await Self.backlog(phone).head?.id == entries[0].id)
    }

    @Test func `the first blocked mutation is the head if no mutation is queued`() async throws {
        let phone = try await Phone.forwarding()
        let other = Phone(phone.gateway, phone.organization, user: phone.user)
        let local = UUID()
        let create = phone.forward("create", local: local, payload: "{}")
        try await phone.push([create])
        let updates = [other.forward("update", local: local, payload: "{}"), other.forward("delete", local: local)]
        try await other.push(updates)
        try await phone.leave(create.id, "failed")
        let backlog = try await Self.backlog(phone)
        #expect(backlog.head?.id == updates[0].id)
        #expect(backlog.blocker == LaneBlocker(.blocked, mutationIDs: [create.id]))
        let oldest = Dictionary(uniqueKeysWithValues: backlog.devices.map { ($0.id, $0.oldestPending?.id) })
        #expect(oldest == [phone.device: nil, other.device: updates[0].id])
    }

    @Test func `lists at most a thousand devices, ordered by their last activity`() async throws {
        let phone = try await Phone.new()
        try await phone.execute(
            """
            INSERT INTO devices
            SELECT '\(phone.organization.id.lowercased)', '\(phone.user.lowercased)', gen_random_uuid(), n, now(),
                timestamptz '2026-11-01T00:00:00Z' + n * interval '1 second'
            FROM generate_series(1, 1100) n
            """
        )
        let devices = try await Self.backlog(phone).devices
        #expect(devices.map(\.acceptedSequence) == (101...1_100).reversed().map { Int64($0) })
    }

    @Test func `counting stops at its limit, and the answer indicates it`() async throws {
        let phone = try await Phone.forwarding()
        let entry = phone.forward("create", local: UUID(), payload: "{}")
        try await phone.push([entry])
        let limit = Int(BacklogReader.countLimit)
        let copy = { (from: Int, to: Int, status: String) in
            """
            INSERT INTO mutations (organization_id, user_id, id, device_id, sequence_number, position, change_position,
                idempotency_key, fingerprint, operation, entity_type, priority, max_attempts, conflict_resolution,
                status, error, created_at, accepted_at, changed_at)
            SELECT organization_id, user_id, gen_random_uuid(), device_id, n, n, 1, gen_random_uuid(), fingerprint,
                'update', entity_type, 0, 10, 'manual', '\(status)', '{}', now(), now(), now()
            FROM mutations, generate_series(\(from), \(to)) n WHERE id = '\(entry.id.lowercased)';
            """
        }
        try await phone.execute(copy(2, limit, "failed"))
        let full = try await Self.backlog(phone)
        #expect(Self.total(full.counts) == Int64(limit) && !full.isTruncated)
        try await phone.execute(copy(limit + 1, limit + 2, "pending") + "ANALYZE mutations")
        try await phone.leave(entry.id, "failed")
        try await phone.execute(
            "UPDATE lanes SET queued_count = 2, open_count = \(limit + 2), head_position = 2 WHERE \(phone.owner)"
        )
        let more = try await Self.backlog(phone)
        #expect(more.counts[.failed] == Int64(limit) && more.counts[.pending] == 0 && more.isTruncated)
        #expect(more.head?.position == Int64(limit + 1), "the head is still found")
        #expect(more.devices.first?.oldestPending == nil)
    }

    /// A user's settled mutations are not read.
    @Test(.onOneServer("plans of one server")) func `reads only open mutations`() async throws {
        let phone = try await Phone.forwarding()
        let entry = phone.forward("create", local: UUID(), payload: "{}")
        try await phone.push([entry])
        try await phone.execute(
            """
            INSERT INTO mutations (organization_id, user_id, id, device_id, sequence_number, position, change_position,
                idempotency_key, fingerprint, operation, entity_type, server_id, priority, max_attempts,
                conflict_resolution, status, created_at, accepted_at, changed_at, synced_at)
            SELECT organization_id, user_id, gen_random_uuid(), device_id, n, n, 1, gen_random_uuid(), fingerprint,
                'update', entity_type, 'x', 0, 10, 'manual', 'succeeded', now(), now(), now(), now()
            FROM mutations, generate_series(2, 20000) n WHERE id = '\(entry.id.lowercased)';
            ANALYZE mutations
            """
        )
        let connection = try await phone.gateway.database.connect(settings: Store.pooledSettings)
        let user = "'\(phone.organization.id)', '\(phone.user)'"
        let calls = [
            (BacklogReader.laneStatement, user), (BacklogReader.countsStatement, user + ", 100000"),
            (BacklogReader.positionsStatement, user + ", '{1}', 1"),
        ]
        for (statement, values) in calls {
            for plan in try await connection.plans(of: statement, values) {
                #expect(pages(in: plan) < 100, "\(plan)")
            }
        }
        connection.close()
    }

    @Test func `excludes the backlogs of other users`() async throws {
        let phone = try await Phone.forwarding()
        try await phone.push([phone.forward("create", local: UUID(), payload: "{}")])
        for user in [UUID(), UUID()] {
            #expect(try await Self.backlog(Phone(phone.gateway, phone.organization, user: user)) == Backlog())
        }
        let other = try await phone.gateway.organization()
        #expect(try await Self.backlog(Phone(phone.gateway, other, user: phone.user)) == Backlog())
    }
}
