import Foundation
import GRDB
import SluiceClient

/// Every write that was committed on a phone. The final state is compared with these writes.
struct FleetLedger {
    struct Entry {
        let id: UUID
        let phone: Int
        let what: String
        /// The phones that have the write because they were set up from a copy of this phone's database.
        var copies: Set<Int> = []
        /// Whether the phone was restored to an earlier time, so that possibly only the gateway has the write.
        var isForgotten = false
    }

    private(set) var entries: [Entry] = []
    private var indices: [UUID: Int] = [:]

    subscript(id: UUID) -> Entry? { indices[id].map { entries[$0] } }

    /// Records the outbox of a phone, with writes of all its processes.
    mutating func note(_ phone: FleetPhone) async throws {
        for (id, what) in try await Self.writes(of: phone) where indices[id] == nil {
            indices[id] = entries.count
            entries.append(Entry(id: id, phone: phone.index, what: what))
        }
    }

    /// Records the writes of a phone that was set up from a copy of another one.
    mutating func noteTwin(_ phone: FleetPhone) async throws {
        for (id, _) in try await Self.writes(of: phone) {
            if let index = indices[id] { entries[index].copies.insert(phone.index) }
        }
    }

    /// Records the writes that a restored phone has lost.
    mutating func noteRestored(_ phone: FleetPhone) async throws {
        let known = Set(try await Self.writes(of: phone).map(\.id))
        for index in entries.indices where entries[index].phone == phone.index && !known.contains(entries[index].id) {
            entries[index].isForgotten = true
        }
    }

    /// Records that a phone is lost, together with its unsent writes.
    mutating func noteLost(_ phone: FleetPhone) {
        for index in entries.indices where entries[index].phone == phone.index { entries[index].isForgotten = true }
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
