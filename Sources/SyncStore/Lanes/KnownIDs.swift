import Foundation
import Postgres
import SyncModel

/// Client ids with a new server id, while mutations under the client id are open.
///
/// A mutation waits for the latest open one of its entity, by any of its names (product rule 3): a later push under the
/// server id must find those that came while only the client id was known. So the latest of them carries both ids;
/// those before it are reached through its dependencies. If it is given up, the latest of the rest takes its place.
struct KnownIDs {
    private var serverIDs: [MappingName: ServerID] = [:]

    /// Adds the outcome of a create, in a lane that has other open mutations.
    mutating func add(_ lane: LaneKey, _ mutation: QueuedMutation, _ outcome: Outcome, _ state: LaneState) {
        guard let created = mutation.created, outcome.status.isFinal, state.openCount > 0 else { return }
        add(lane, created.clientID, created.entityType, outcome.serverID)
    }

    /// Skips a mutation without both names: it has nothing to pass on.
    mutating func add(_ lane: LaneKey, _ clientID: UUID?, _ entityType: String, _ serverID: ServerID?) {
        guard let clientID, let serverID else { return }
        serverIDs[MappingName(lane: lane, clientID: clientID, entityType: entityType)] = serverID
    }

    /// To be run once the mutations and mappings are written, in key order.
    ///
    /// Empty where nothing was added.
    var queries: [Query] {
        guard !serverIDs.isEmpty else { return [] }
        return [Query(Self.statement, Self.columns.parameters(serverIDs.sorted { $0.key < $1.key }))]
    }

    private static let columns = Columns<(key: MappingName, value: ServerID)>(
        .lane { $0.key.lane },
        .uuid("client_id") { $0.key.clientID },
        .text("entity_type") { $0.key.entityType },
        .serverID { $0.value }
    )

    /// Readers need not see the change: the change position is not raised.
    static let statement = Statement(
        "lane_known_ids",
        columns.inputs,
        """
        UPDATE mutations AS m
        SET server_id = l.server_id, server_id_is_integer = l.server_id_is_integer
        FROM (
            SELECT k.organization_id, k.user_id, x.id, k.server_id, k.server_id_is_integer
            FROM \(columns.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT y.id, y.server_id FROM mutations y
                WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id AND y.local_id = k.client_id
                    AND y.entity_type = k.entity_type AND y.synced_at IS NULL
                ORDER BY y.position DESC
                LIMIT 1
            ) x
            WHERE x.server_id IS NULL
            OFFSET 0
        ) l
        WHERE m.organization_id = l.organization_id AND m.user_id = l.user_id AND m.id = l.id
        """
    )
}
