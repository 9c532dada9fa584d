import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import RetentionFeature
@testable import SyncStore

/// Devices' own ids stay as long as their entity, and are deleted with its tombstone.
@Suite struct LocalIDRetentionTests {
    /// Assigns devices' own numbers to an entity.
    private func know(
        _ id: String,
        as number: Int64,
        on device: UUID = UUID(),
        of phone: Phone,
        column: String = "server_id",
        client: UUID? = nil
    ) async throws {
        try await phone.execute(
            """
            INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, \(column), client_id)
            VALUES ('\(phone.organization.id)', '\(phone.user)', '\(device)', 'task', \(number), '\(id)',
                \(client.map { "'\($0)'" } ?? "NULL"));
            INSERT INTO devices (organization_id, user_id, device_id, accepted_sequence, created_at, last_seen_at)
            VALUES ('\(phone.organization.id)', '\(phone.user)', '\(device)', 0, now(), now()) ON CONFLICT DO NOTHING
            """
        )
    }

    /// Tasks are created by client ids, to simplify the test.
    private func makeDeviceType(_ phones: Phone...) async throws {
        for phone in phones {
            try await phone.execute(
                """
                UPDATE entity_types SET id_space = 'device'
                WHERE organization_id = '\(phone.organization.id)' AND name = 'task'
                """
            )
        }
    }

    /// A created task and its server id.
    private func made(by phone: Phone) async throws -> (entry: Entry, id: String) {
        let entry = phone.create()
        return (entry, try #require(try await phone.push([entry]).results[0].serverID))
    }

    private func delete(_ entry: Entry, by phone: Phone) async throws {
        #expect(try await phone.push([phone.entry("delete", local: entry.local)]).results[0].status == "succeeded")
    }

    @Test func `retention deletes all devices' IDs of a tombstone and no others`() async throws {
        let ada = try await Phone.new()
        let gateway = ada.gateway
        let bob = Phone(gateway, ada.organization)
        let eve = Phone(gateway, try await gateway.organization())
        let (gone, living) = (try await made(by: ada), try await made(by: ada))
        let hers = try await made(by: eve)
        let tablet = UUID()
        for (number, task) in [(Int64(1), gone), (2, living)] {
            try await know(task.id, as: number, on: ada.device, of: ada)
            try await know(task.id, as: number + 10, on: tablet, of: ada)
            try await know(task.id, as: .max - number, on: bob.device, of: bob)
            // the same id in another organization is another entity
            try await know(task.id, as: number, on: eve.device, of: eve)
        }
        // an id that the device assigned to an entity that already had one
        try await know(gone.id, as: 99, on: tablet, of: ada, column: "same_as")
        try await know(hers.id, as: 50, on: eve.device, of: eve)
        let theirs = try await gateway.dump("local_ids", eve.organization.id)
        try await delete(gone.entry, by: ada)
        try await makeDeviceType(ada, eve)
        gateway.clock.advance(seconds: 30 * Gateway.day)
        try await gateway.retain()
        #expect(try await ada.count("local_ids") == 7)
        gateway.clock.advance(seconds: 1)
        #expect(try await gateway.retain(isDryRun: true)?.report[.tombstones] == 1)
        #expect(try await ada.count("local_ids") == 7)
        #expect(try await gateway.retain()?.report[.tombstones] == 1)
        #expect(try await ada.count("local_ids", "server_id = '\(living.id)'") == 3)
        #expect(try await ada.count("local_ids") == 3)
        #expect(try await gateway.dump("local_ids", eve.organization.id) == theirs)
    }

    /// More devices than one page holds, and more ids than one statement deletes.
    @Test func `retention deletes an entity with the ids of all its devices`() async throws {
        let phone = try await Phone.new()
        let task = try await made(by: phone)
        try await phone.execute(
            """
            INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
            SELECT '\(phone.organization.id)', gen_random_uuid(), gen_random_uuid(), 'task', n, '\(task.id)'
            FROM generate_series(1, 12000) n;
            INSERT INTO devices (organization_id, user_id, device_id, accepted_sequence, created_at, last_seen_at)
            SELECT organization_id, user_id, device_id, 0, now(), now() FROM local_ids ON CONFLICT DO NOTHING;
            """
        )
        try await delete(task.entry, by: phone)
        try await makeDeviceType(phone)
        phone.gateway.clock.advance(seconds: 31 * Gateway.day)
        #expect(try await phone.gateway.retain()?.report[.tombstones] == 1)
        #expect(try await phone.count("local_ids") == 0)
    }

    @Test func `a tombstone stays while a waiting mutation needs a device's ID of it`() async throws {
        let ada = try await Phone.forwarding(visibility: "organization")
        let gateway = ada.gateway
        let bob = Phone(gateway, ada.organization)
        let idle = Phone(gateway, ada.organization)
        // no mutation of theirs is sent while the type is forwarded, so the entity is a note
        try await ada.execute(
            """
            UPDATE entity_types SET is_forwarded = false
            WHERE organization_id = '\(ada.organization.id)' AND name = 'task'
            """
        )
        gateway.clock.advance(seconds: 6)
        let (needed, other) = (try await made(by: ada), try await made(by: ada))
        let (one, two) = (UUID(), UUID())
        try await know(needed.id, as: 7, on: bob.device, of: bob, client: one)
        try await know(needed.id, as: 8, on: idle.device, of: idle, client: two)
        try await know(other.id, as: 8, on: bob.device, of: bob, client: two)
        let waiting = bob.forward("create", "note", local: UUID())
        try await bob.push([waiting])
        try await bob.execute("UPDATE mutations SET reference_ids = '{\(one)}' WHERE \(bob.owner)")
        for task in [needed, other] { try await delete(task.entry, by: ada) }
        try await makeDeviceType(ada)
        gateway.clock.advance(seconds: 31 * Gateway.day)
        #expect(try await gateway.retain()?.report[.tombstones] == 1)
        #expect(try await ada.count("entities", "is_deleted AND id = '\(needed.id)'") == 1)
        #expect(try await ada.count("local_ids", "server_id = '\(needed.id)'") == 2)
        #expect(try await ada.count("local_ids") == 2)
        // once the mutation is settled, the next run deletes them
        _ = try await bob.discard(waiting.id)
        #expect(try await gateway.retain()?.report[.tombstones] == 1)
        #expect(try await ada.count("local_ids") == 0)
        #expect(try await ada.count("entities") == 0)
        #expect(try await ada.disorder() == [])
    }
}
