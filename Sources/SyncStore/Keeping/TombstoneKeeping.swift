import Foundation
import Postgres
import SyncModel

/// Tombstones go, and the mappings of those who made the entities. Whoever has pulled nothing since then starts over: the
/// feed's horizon says so.
struct TombstoneKeeping: Keeping {
    struct Row: Sendable {
        let type: String
        let id: String
        let owner: UUID
        let clientID: UUID?
        let feedPosition: Int64
        let deletedAt: Timestamp
    }

    let organization: UUID
    let cutoffs: RetentionCutoffs

    func page(after place: RetentionPlace?, limit: Int) -> Query {
        var parameters = Parameters()
        parameters.add(organization)
        if case .tombstone(let moment, let type, let id) = place {
            parameters.add(timestamp: moment.microseconds)
            parameters.add(type)
            parameters.add(id)
        } else {
            parameters.add(timestamp: Timestamp.longAgo.microseconds)
            parameters.add("")
            parameters.add("")
        }
        parameters.add(timestamp: cutoffs.everything.microseconds)
        parameters.add(Int64(limit))
        return Query(Self.pageStatement, parameters)
    }

    func row(_ rows: Rows, _ index: Int) throws -> Row {
        Row(
            type: try rows.string(index, 0),
            id: try rows.string(index, 1),
            owner: try rows.uuid(index, 2),
            clientID: try rows.optionalUUID(index, 3),
            feedPosition: try rows.int64(index, 4),
            deletedAt: Timestamp(microseconds: try rows.timestamp(index, 5))
        )
    }

    func place(of row: Row) -> RetentionPlace { .tombstone(row.deletedAt, type: row.type, id: row.id) }
    func isDue(_ row: Row) -> Bool { true }
    func user(of row: Row) -> UUID { row.owner }

    func drop(_ rows: [Row], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int {
        let sorted = rows.sorted { ($0.type, $0.id) < ($1.type, $1.id) }
        var parameters = Parameters()
        parameters.add(sorted.map { _ in organization })
        parameters.add(sorted.map(\.type))
        parameters.add(sorted.map(\.id))
        parameters.add(sorted.map(\.feedPosition))
        let gone = try await connection.run(Query(Self.deleteStatement, parameters))
        guard gone.count > 0 else { return 0 }
        var last = Int64.min
        var entities: Set<EntityKey> = []
        for row in 0..<gone.count {
            entities.insert(EntityKey(type: try gone.string(row, 0), id: try gone.string(row, 1)))
            last = max(last, try gone.int64(row, 2))
        }
        var queries: [Query] = []
        // an open mutation may still need the client id; then the mapping goes when mappings are looked through
        let needed = try await NeededIDs(of: lanes, on: connection)
        let mapped = sorted.filter { row in
            guard let client = row.clientID else { return false }
            return !needed.contains(client, of: row.owner)
                && entities.contains(EntityKey(type: row.type, id: row.id))
        }
        if !mapped.isEmpty {
            var parameters = Parameters()
            parameters.add(mapped.map { _ in organization })
            parameters.add(mapped.map(\.owner))
            parameters.add(mapped.compactMap(\.clientID))
            parameters.add(mapped.map(\.type))
            parameters.add(mapped.map(\.id))
            queries.append(Query(Self.deleteMappingsStatement, parameters))
        }
        var horizon = Parameters()
        horizon.add(organization)
        horizon.add(last)
        queries.append(Query(Self.horizonStatement, horizon))
        _ = try await connection.run(queries)
        return gone.count
    }

    static let pageStatement = Statement(
        "retention_tombstones",
        """
        SELECT e.entity_type, e.id, e.owner_id, e.client_id, e.feed_position, e.updated_at
        FROM entities e
        WHERE e.organization_id = $1 AND e.is_deleted AND e.updated_at >= $2
            AND (e.updated_at, e.entity_type, e.id::text COLLATE "C") > ($2, $3::text COLLATE "C", $4::text COLLATE "C")
            AND e.updated_at < $5
        ORDER BY e.updated_at, e.entity_type, e.id::text COLLATE "C"
        LIMIT $6
        """
    )

    /// One that was written since it was read has another position, and stays.
    static let deleteStatement = Statement(
        "retention_delete_tombstones",
        """
        DELETE FROM entities AS e
        USING unnest($1::uuid[], $2::text[], $3::text[], $4::int8[])
            AS k (organization_id, entity_type, id, feed_position)
        WHERE e.organization_id = k.organization_id AND e.entity_type = k.entity_type AND e.id = k.id
            AND CASE WHEN e.feed_position = k.feed_position THEN true END
        RETURNING e.entity_type, e.id, e.feed_position
        """
    )

    static let deleteMappingsStatement = Statement(
        "retention_delete_mappings_of_tombstones",
        """
        DELETE FROM id_mappings AS i
        USING unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[])
            AS k (organization_id, user_id, client_id, entity_type, server_id)
        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
            AND i.entity_type = k.entity_type AND i.server_id = k.server_id
        """
    )

    /// The last lock of the transaction, as ever.
    static let horizonStatement = Statement(
        "retention_raise_horizon",
        "UPDATE feeds AS f SET horizon = greatest(f.horizon, $2) WHERE f.organization_id = $1"
    )
}
