import Foundation
import Postgres
import SyncModel

/// Client ids that open mutations of some lanes name: their mappings stay, however old they are. The lanes are locked, so
/// nothing is added.
struct NeededIDs {
    /// A lane with more open mutations is not looked through: then all of its ids count as needed.
    static let limit: Int32 = 5_000

    private var ids: [UUID: Set<UUID>] = [:]
    private var crowded: Set<UUID> = []
    private let known: Set<UUID>

    init(of lanes: [LaneKey: LaneState], on connection: Connection) async throws {
        known = Set(lanes.keys.map(\.user))
        let busy = lanes.filter { $0.value.openCount > 0 }
        crowded = Set(busy.filter { $0.value.openCount > Self.limit }.map(\.key.user))
        let looked = busy.keys.filter { !crowded.contains($0.user) }.sorted()
        guard !looked.isEmpty else { return }
        let rows = try await connection.run(Query(Self.statement, LaneRows.keys(looked)))
        for row in 0..<rows.count { ids[try rows.uuid(row, 0), default: []].insert(try rows.uuid(row, 1)) }
    }

    /// Whether a mapping has to stay; of a user without a lane nothing is known.
    func contains(_ client: UUID, of user: UUID) -> Bool {
        !known.contains(user) || crowded.contains(user) || ids[user]?.contains(client) == true
    }

    static let statement = Statement(
        "retention_needed_ids",
        """
        SELECT DISTINCT k.user_id, n.id
        FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
        CROSS JOIN LATERAL (
            SELECT unnest(m.reference_ids || m.local_id) AS id
            FROM mutations m
            WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.synced_at IS NULL
            ORDER BY m.position
        ) n
        WHERE n.id IS NOT NULL
        """
    )
}
