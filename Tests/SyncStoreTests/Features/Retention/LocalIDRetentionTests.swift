import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import RetentionFeature
@testable import SyncStore

/// Device ids are kept as long as their entity, and are deleted with its tombstone.
@Suite struct LocalIDRetentionTests {
    /// Assigns devices' own numbers to an entity.
    private func know(
        _ id: String,
        as number: Int64,
        on device: UUID = UUID(),
        of phone: Phone,
        _ type: String = "task",
        column: String = "server_id",
        client: UUID? = nil
    ) async throws {
        try await phone.execute(
            """
            INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, \(column), client_id)
            VALUES ('\(phone.organization.id)', '\(phone.user)', '\(device)', '\(type)', \(number), '\(id)',
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

    /// Creates a task, and returns its entry and server id.
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
        // an id that the device assigned to an entity that already had a number
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

    @Test func `a tombstone stays while a waiting mutation needs a device ID of the entity`() async throws {
        let ada = try await Phone.forwarding(visibility: "organization")
        let gateway = ada.gateway
        let bob = Phone(gateway, ada.organization)
        let idle = Phone(gateway, ada.organization)
        // the deletions of tasks must take effect, so the type is not forwarded; the waiting mutation creates a note,
        // which stays forwarded
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

    // MARK: - Records that may need a number

    /// The ways in which a later mutation may name a deleted entity.
    enum Naming: CaseIterable {
        case relation, list, entity

        /// - Parameter id: the id as JSON: a number of the device, or the server id.
        func entry(_ phone: Phone, _ number: Int64, _ id: String) -> Entry {
            switch self {
            case .relation: phone.numbered("create", number, payload: #"{"folderId":\#(id)}"#)
            case .list: phone.numbered("create", number, payload: #"{"related":[\#(number),\#(id)]}"#)
            case .entity:
                id.hasPrefix("\"")
                    ? phone.entry("delete", type, server: id) : phone.numbered("delete", Int64(id) ?? 0, type)
            }
        }

        /// The deleted entity's type.
        var type: String { self == .list ? "task" : "folder" }

        /// The entry as sent by a worker that replaced one id by the other.
        func rewrite(_ entry: Entry, _ phone: Phone, _ number: Int64, _ id: String) -> Entry {
            let other = self.entry(phone, number, id)
            var rewritten = entry
            (rewritten.payload, rewritten.server, rewritten.extra) = (other.payload, other.server, other.extra)
            return rewritten
        }
    }

    /// Devices of two users, each with its own number of one entity that was deleted.
    private struct Devices {
        let ada: Phone
        let tablet: Phone
        let bob: Phone
        let server: String
        let numbers: [Int64] = [1, 51, 71]

        var all: [(phone: Phone, number: Int64)] {
            zip([ada, tablet, bob], numbers).map { (phone: $0, number: $1) }
        }
    }

    private func devices(_ type: String) async throws -> Devices {
        let gateway = try await Gateway()
        let organization = try await folderOrganization(gateway)
        let ada = Phone(gateway, organization)
        let created = try await ada.push([ada.numbered("create", 1, type, payload: "{}")])
        let server = try #require(created.results[0].serverID)
        let tablet = Phone(gateway, organization, user: ada.user)
        let devices = Devices(ada: ada, tablet: tablet, bob: Phone(gateway, organization), server: server)
        for (phone, number) in devices.all.dropFirst() {
            try await know(server, as: number, on: phone.device, of: phone, type)
        }
        let deleted = try await ada.push([ada.numbered("delete", 1, type)])
        #expect(deleted.results[0].status == "succeeded")
        return devices
    }

    /// In an earlier version, the mapping of the number was deleted with the tombstone, and the repeat was refused with
    /// `idempotency_key_reused`.
    @Test(arguments: Naming.allCases, [false, true])
    func `a number stays comparable while a record may need it`(naming: Naming, isReversed: Bool) async throws {
        let devices = try await devices(naming.type)
        let gateway = devices.ada.gateway
        gateway.clock.advance(seconds: 20 * Gateway.day)
        var attempts: [(phone: Phone, first: Entry, second: Entry)] = []
        for (phone, number) in devices.all {
            let ids = [String(number), #""\#(devices.server)""#]
            let first = naming.entry(phone, 9, isReversed ? ids[1] : ids[0])
            #expect(try await phone.push([first]).results[0].status == "succeeded")
            attempts.append((phone, first, naming.rewrite(first, phone, 9, isReversed ? ids[0] : ids[1])))
        }
        for days in [11.5, 10, 7] {
            gateway.clock.advance(seconds: days * Gateway.day)
            try await gateway.retain()
            for (phone, first, second) in attempts {
                for entry in [first, second] {
                    let replay = try await phone.push([entry]).results[0]
                    #expect(replay.isReplayed == true && replay.status == "succeeded", "\(days): \(replay)")
                }
            }
        }
        #expect(try await devices.ada.count("local_ids", "server_id = '\(devices.server)'") == 0)
        #expect(try await devices.ada.count("id_mappings", "server_id = '\(devices.server)'") == 3)
        // the mapping serves only comparisons: no list contains it, and new mutations do not find it
        let page = try await gateway.store.mappings.list(
            since: nil,
            statuses: [],
            limit: 100,
            organization: devices.ada.organization.id,
            user: devices.ada.user
        )
        #expect(page.mappings.isEmpty)
        let late = Naming.relation.entry(devices.ada, 10, "1")
        #expect(try await devices.ada.push([late]).results[0].rules == ["entity_reference_must_exist"])
        // once the records are deleted, the watermark refuses repeats, and the mappings are deleted, too
        gateway.clock.advance(seconds: 3 * Gateway.day)
        try await gateway.retain()
        gateway.clock.advance(seconds: 12 * Gateway.day)
        try await gateway.retain()
        #expect(try await devices.ada.count("id_mappings") == 0)
        for (phone, _, second) in attempts {
            #expect(try await phone.push([second]).results[0].code == "sequence_already_used")
        }
    }

    /// The key is known to every device of the user, under any number.
    @Test func `a user's second device repeats a mutation of the first device after retention`() async throws {
        let devices = try await devices("folder")
        let gateway = devices.ada.gateway
        gateway.clock.advance(seconds: 20 * Gateway.day)
        let first = Naming.relation.entry(devices.ada, 9, "1")
        try await devices.ada.push([first])
        gateway.clock.advance(seconds: 11.5 * Gateway.day)
        try await gateway.retain()
        var restored = first
        restored.payload = #"{"folderId":"\#(devices.server)"}"#
        restored.number = devices.tablet.nextNumber()
        #expect(try await devices.tablet.push([restored]).results[0].isReplayed == true)
        // the id of another entity is different content
        restored.payload = #"{"folderId":"\#(UUID().lowercased)"}"#
        restored.number = devices.tablet.nextNumber()
        #expect(try await devices.tablet.push([restored]).results[0].code == "idempotency_key_reused")
    }

    @Test(arguments: [25.0, 32.0])
    func `a merge keeps numbers that moved records may need`(day: Double) async throws {
        let devices = try await devices("folder")
        let (ada, bob) = (devices.ada, devices.bob)
        let gateway = ada.gateway
        gateway.clock.advance(seconds: 20 * Gateway.day)
        let first = Naming.relation.entry(ada, 9, "1")
        try await ada.push([first])
        // the target's own mutations are newer, but run before the moved ones
        gateway.clock.advance(seconds: 4 * Gateway.day)
        try await bob.push([bob.numbered("create", 1, "folder", payload: "{}")])
        gateway.clock.advance(seconds: (day - 24) * Gateway.day)
        try await gateway.retain()
        try await ada.join(into: bob)
        let joined = ada.signedIn(as: bob.user)
        let second = Naming.relation.rewrite(first, ada, 9, #""\#(devices.server)""#)
        for days in [36.0 - day, 7, 5] {
            gateway.clock.advance(seconds: days * Gateway.day)
            try await gateway.retain()
            #expect(try await joined.push([second]).results[0].isReplayed == true, "\(days)")
        }
        #expect(try await ada.count("id_mappings", "change_position >= 0") == 0)
    }

    @Test func `SQL and code derive the same client id from a retired number`() async throws {
        let devices = try await devices("folder")
        devices.ada.gateway.clock.advance(seconds: 20 * Gateway.day)
        for (phone, _) in devices.all { try await phone.push([phone.numbered("create", 9, payload: "{}")]) }
        devices.ada.gateway.clock.advance(seconds: 11 * Gateway.day)
        try await devices.ada.gateway.retain()
        let stored = try await devices.ada.gateway.rows("SELECT client_id::text FROM id_mappings ORDER BY 1")
        let names = devices.all.map { phone, number in
            LocalID(entityType: "folder", number: number).retiredID(on: phone.device).lowercased
        }
        #expect(stored == names.sorted())
    }
}
