import Foundation
import Postgres
import SyncModel
import SyncStore

/// Client ids that open mutations of some lanes name: their mappings stay, however old they are.
///
/// The lanes are locked, so none is added.
struct NeededIDs {
    /// Open mutations that are scanned. In lanes beyond that all ids count as needed, and a later run checks again.
    static let limit = 5_000

    private var ids: [UUID: Set<UUID>] = [:]
    private var crowded: Set<UUID> = []
    private let known: Set<UUID>

    init(of lanes: [LaneKey: LaneState], on connection: Connection) async throws {
        known = Set(lanes.keys.map(\.user))
        var (scanned, room): ([LaneKey], Int) = ([], Self.limit)
        // the smaller ones first, so that one large lane does not keep the others' mappings
        for (lane, state) in lanes.filter({ $0.value.openCount > 0 }).sorted(by: {
            $0.value.openCount < $1.value.openCount
        }) {
            room -= Int(state.openCount)
            if room >= 0 { scanned.append(lane) } else { crowded.insert(lane.user) }
        }
        scanned.sort()
        guard !scanned.isEmpty else { return }
        let rows = try await connection.run(Query(Self.statement, LaneRows.keys(scanned)))
        for var row in rows {
            let user = try row.uuid("user_id")
            ids[user, default: []].insert(try row.uuid("id"))
        }
    }

    /// Whether a mapping must stay. All mappings of a user without a lane stay, because nothing is known of that user.
    func contains(_ client: UUID, of user: UUID) -> Bool {
        !known.contains(user) || crowded.contains(user) || ids[user]?.contains(client) == true
    }

    static let statement = Statement(
        "retention_needed_ids",
        Columns.lanes.inputs,
        """
        SELECT DISTINCT k.user_id, n.id
        FROM \(Columns.lanes.unnested(as: "k"))
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
