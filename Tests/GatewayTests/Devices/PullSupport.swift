import Foundation
import JSONText
import NIOHTTP1
import Testing

/// An installation that pulls: a worker's device, its cursor and its counters.
final class PullingDevice {
    let worker: SyncWorker
    let device: UUID
    var cursor: String?
    /// The device's next numbers (`next_local_ids`) as JSON text; nil to omit them.
    var counters: String?

    init(_ worker: SyncWorker, device: UUID = UUID(), counters: String? = nil) {
        self.worker = worker
        self.device = device
        self.counters = counters
    }

    /// Pulls from a cursor. The device's own cursor and counters stay unchanged.
    func ask(_ since: String? = nil, limit: Int? = nil, wait: Int? = nil, counters: String? = nil) async throws -> Reply
    {
        var members = [#""since":\#(since.map { #""\#($0)""# } ?? "null")"#]
        if let limit { members.append(#""limit":\#(limit)"#) }
        if let wait { members.append(#""wait":\#(wait)"#) }
        if let counters = counters ?? self.counters { members.append(#""next_local_ids":\#(counters)"#) }
        return try await send("{" + members.joined(separator: ",") + "}")
    }

    func send(_ body: String) async throws -> Reply {
        try await worker.post("/v1/devices/\(device.lowercased)/pull", body)
    }

    /// Pulls from the current cursor and applies the page.
    func pull(limit: Int? = nil) async throws -> Reply {
        let reply = try await ask(cursor, limit: limit)
        #expect(reply.status == 200, "\(reply.text)")
        cursor = reply.next
        counters = reply.json?["next_local_ids"]?.text
        return reply
    }
}

extension Reply {
    /// The two ids of each change, as `id=local_id`.
    var numbered: [String] {
        changes.map { "\($0["id"]?.string ?? $0["id"]?.text ?? "")=\($0["local_id"]?.text ?? "-")" }
    }
    var documents: [String?] { changes.map { $0["document"]?.text } }
    var counters: String? { json?["next_local_ids"]?.text }
}

extension TwoTenantFixture {
    /// Registers an entity type in Ada's organization.
    func type(_ name: String, _ body: String = #"{"id_space":"device"}"#, of worker: SyncWorker? = nil) async throws {
        let organization = (worker ?? ada).organization.lowercased
        let reply = try await operate(.PUT, "/admin/organizations/\(organization)/entity-types/\(name)", body)
        #expect([200, 201].contains(reply.status), "\(reply.text)")
    }

    /// Creates or changes an entity, as another device would; deletes it if the document is nil.
    func write(
        _ type: String,
        _ id: String,
        _ document: String? = "{}",
        isInteger: Bool = false,
        by worker: SyncWorker? = nil
    ) async throws {
        let worker = worker ?? ada
        let (organization, user) = (worker.organization.lowercased, worker.user.lowercased)
        let json = document.map { "'\($0)'" } ?? "NULL"
        try await execute(
            """
            UPDATE entity_types SET is_in_use = true WHERE organization_id = '\(organization)' AND name = '\(type)';
            WITH f AS (
                UPDATE feeds SET last_position = last_position + 1 WHERE organization_id = '\(organization)'
                RETURNING last_position
            )
            INSERT INTO entities AS e (
                organization_id, entity_type, id, id_is_integer, version, is_deleted, document, feed_position, owner_id,
                updated_by, updated_on, run_base, created_at, updated_at)
            SELECT '\(organization)', '\(type)', '\(id)', \(isInteger), 1, \(document == nil), \(json), last_position,
                '\(user)', '\(user)', '\(worker.device.lowercased)', 0, now(), now()
            FROM f
            ON CONFLICT (organization_id, entity_type, id) DO UPDATE
            SET version = e.version + 1, is_deleted = excluded.is_deleted, document = excluded.document,
                feed_position = excluded.feed_position
            """
        )
    }

    /// Stores a device's own number of an entity; without a server id, the number of an entity whose create has not
    /// run.
    func number(_ device: PullingDevice, _ type: String, _ number: Int64, _ server: String?) async throws {
        let worker = device.worker
        let rest = server.map { "'\($0)', NULL, NULL" } ?? "NULL, gen_random_uuid(), gen_random_uuid()"
        try await execute(
            """
            INSERT INTO local_ids (
                organization_id, user_id, device_id, entity_type, local_id, server_id, mutation_id, client_id)
            VALUES ('\(worker.organization.lowercased)', '\(worker.user.lowercased)', '\(device.device.lowercased)',
                '\(type)', \(number), \(rest))
            """
        )
    }

    /// The stored ids of a device, as `type number server_id`.
    func numbers(of device: PullingDevice) async throws -> [String] {
        try await lines(
            """
            SELECT entity_type || ' ' || local_id || ' ' || coalesce(server_id, '-') FROM local_ids
            WHERE device_id = '\(device.device.lowercased)' AND user_id = '\(device.worker.user.lowercased)'
                AND organization_id = '\(device.worker.organization.lowercased)'
            ORDER BY entity_type, local_id
            """
        )
    }

    /// The stored pages of a device, by number. An outstanding page also has the number of its assignments.
    func pages(of device: PullingDevice) async throws -> [String] {
        try await lines(
            """
            SELECT page || coalesce(' ' || cardinality(local_ids), '') FROM local_id_pages
            WHERE device_id = '\(device.device.lowercased)' AND user_id = '\(device.worker.user.lowercased)'
                AND organization_id = '\(device.worker.organization.lowercased)'
            ORDER BY page
            """
        )
    }
}
