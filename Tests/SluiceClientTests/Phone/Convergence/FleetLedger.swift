import Foundation
import GRDB
import SluiceClient

/// Every write that was committed on a phone: what the end is measured against.
struct FleetLedger {
    struct Entry {
        let id: UUID
        let phone: Int
        let what: String
        /// Whether the phone was set back to a time before it: then only the gateway may know of it.
        var isForgotten = false
    }

    private(set) var entries: [Entry] = []
    private var indices: [UUID: Int] = [:]

    subscript(id: UUID) -> Entry? { indices[id].map { entries[$0] } }

    /// Notes what is in the outbox of a phone, whoever committed it.
    mutating func note(_ phone: FleetPhone) async throws {
        for (id, what) in try await Self.writes(of: phone) where indices[id] == nil {
            indices[id] = entries.count
            entries.append(Entry(id: id, phone: phone.index, what: what))
        }
    }

    /// Notes what a phone that was restored no longer knows of.
    mutating func noteRestored(_ phone: FleetPhone) async throws {
        let known = Set(try await Self.writes(of: phone).map(\.id))
        for index in entries.indices where entries[index].phone == phone.index && !known.contains(entries[index].id) {
            entries[index].isForgotten = true
        }
    }

    private static func writes(of phone: FleetPhone) async throws -> [(id: UUID, what: String)] {
        try await phone.app.pool.read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT id, operation || ' of ' || entity_type || ' ' || coalesce(payload ->> '_', '') AS what
                    FROM sluice_mutations UNION ALL SELECT id, 'pruned' FROM pruned
                    """
            ).compactMap { row in UUID(uuidString: row["id"]).map { ($0, row["what"] as String) } }
        }
    }
}
