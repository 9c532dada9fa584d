import Foundation
import Postgres
import SyncModel
import SyncStore

/// Deletes tombstones, their creators' mappings unless a record may need them, and all devices' local ids of them.
///
/// A client that has pulled nothing since then starts over, as required by the feed's horizon.
struct TombstoneRetention: Retention {
    struct Row: RetentionRow {
        let organization: UUID
        let type: String
        let id: String
        /// The entity's owner.
        let user: UUID
        let clientID: UUID?
        let feedPosition: Int64
        let deletedAt: Timestamp

        var key: EntityKey { EntityKey(type: type, id: id) }
        var place: RetentionPosition { .tombstone(deletedAt, key) }
        var isDue: Bool { true }

        /// The columns that find an unchanged tombstone.
        static let tombstone = Columns<Row>(
            .uuid("organization_id", \.organization),
            .text("entity_type", \.type),
            .text("id", \.id),
            .int8("feed_position", \.feedPosition)
        )

        /// The columns that find the creator's mapping.
        static let mapping = Columns<Row>(
            .uuid("organization_id", \.organization),
            .uuid("user_id", \.user),
            .uuid("client_id", \.clientID),
            .text("entity_type", \.type),
            .text("server_id", \.id)
        )
    }

    let organization: UUID
    let cutoffs: RetentionCutoffs

    private var localIDs: LocalIDRetention { LocalIDRetention(organization: organization) }

    func page(after place: RetentionPosition?, limit: Int) -> Query {
        var last = (age: Timestamp.longAgo, type: "", id: "")
        if case .tombstone(let age, let key) = place { last = (age, key.type, key.id) }
        return Self.pageStatement(
            organization: organization,
            after_age: last.age,
            after_type: last.type,
            after_id: last.id,
            cutoff: cutoffs.everything,
            limit: Int64(limit)
        )
    }

    func row(_ row: inout RowReader) throws -> Row {
        Row(
            organization: organization,
            type: try row.string("entity_type"),
            id: try row.string("id"),
            user: try row.uuid("owner_id"),
            clientID: try row.optionalUUID("client_id"),
            feedPosition: try row.int64("feed_position"),
            deletedAt: try row.moment("updated_at")
        )
    }

    func others(excluding rows: [Row], on connection: Connection) async throws -> Set<UUID> {
        Set(try await localIDs.named(rows.map(\.key), on: connection).map(\.user))
    }

    func drop(_ rows: [Row], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int {
        let needed = try await NeededIDs(of: lanes, on: connection)
        // a local id that an open mutation needs leads somewhere as long as the tombstone is there
        let held = try await localIDs.named(rows.map(\.key), on: connection).filter {
            needed.contains($0.clientID, of: $0.user)
        }.map(\.key)
        let sorted = rows.filter { !held.contains($0.key) }.sorted { ($0.type, $0.id) < ($1.type, $1.id) }
        guard !sorted.isEmpty else { return 0 }
        _ = try await connection.run(Row.tombstone.query(Self.deleteStaysStatement, sorted))
        let gone = try await connection.run(Row.tombstone.query(Self.deleteStatement, sorted))
        guard gone.count > 0 else { return 0 }
        var last = Int64.min
        var entities: Set<EntityKey> = []
        for var row in gone {
            entities.insert(try row.entityKey())
            last = max(last, try row.int64("feed_position"))
        }
        // an open mutation may still need the client id; then the mapping is deleted by a later scan of mappings
        let mapped = sorted.filter { row in
            guard let client = row.clientID else { return false }
            return !needed.contains(client, of: row.user) && entities.contains(row.key)
        }
        if !mapped.isEmpty {
            _ = try await connection.run(Row.mapping.query(Self.deleteMappingsStatement, mapped))
        }
        try await localIDs.drop(of: entities.sorted { ($0.type, $0.id) < ($1.type, $1.id) }, on: connection)
        _ = try await connection.run([
            Self.horizonStatement(organization: organization, position: last),
            ChannelStatements.pruneStays(organization: organization, limit: Self.prunedRows),
            ChannelStatements.pruneGrants(organization: organization, limit: Self.prunedRows),
        ])
        return gone.count
    }

    /// Ended stays and grants that are deleted with one page of tombstones.
    private static let prunedRows: Int64 = 5_000

    /// Deletes the stays of tombstones that are about to go.
    static let deleteStaysStatement = Statement(
        "retention_delete_stays_of_tombstones",
        Row.tombstone.inputs,
        """
        DELETE FROM entity_channels AS s
        USING (
            SELECT k.organization_id, x.channels, x.feed_position
            FROM \(Row.tombstone.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT y.channels, y.feed_position FROM entities y
                WHERE y.organization_id = k.organization_id AND y.entity_type = k.entity_type AND y.id = k.id
                    AND y.feed_position = k.feed_position AND y.channels IS NOT NULL
                OFFSET 0
            ) x
        ) e
        WHERE s.organization_id = e.organization_id AND s.channel = ANY (e.channels) AND s.changed_at = e.feed_position
        """
    )

    static let pageStatement = Statement(
        "retention_tombstones",
        ["organization", "after_age", "after_type", "after_id", "cutoff", "limit"],
        """
        SELECT e.entity_type, e.id, e.owner_id, e.client_id, e.feed_position, e.updated_at
        FROM entities e
        WHERE e.organization_id = :organization AND e.is_deleted AND e.updated_at >= :after_age
            AND (e.updated_at, e.entity_type, e.id::text COLLATE "C") > (:after_age, :after_type::text COLLATE "C", :after_id::text COLLATE "C")
            AND e.updated_at < :cutoff
        ORDER BY e.updated_at, e.entity_type, e.id::text COLLATE "C"
        LIMIT :limit
        """
    )

    /// An entity that was written since it was read has another position, and stays.
    static let deleteStatement = Statement(
        "retention_delete_tombstones",
        Row.tombstone.inputs,
        """
        DELETE FROM entities AS e
        USING \(Row.tombstone.unnested(as: "k"))
        WHERE e.organization_id = k.organization_id AND e.entity_type = k.entity_type AND e.id = k.id
            AND CASE WHEN e.feed_position = k.feed_position THEN true END
        RETURNING e.entity_type, e.id, e.feed_position
        """
    )

    static let deleteMappingsStatement = Statement(
        "retention_delete_mappings_of_tombstones",
        Row.mapping.inputs,
        """
        DELETE FROM id_mappings AS i
        USING \(Row.mapping.unnested(as: "k"))
        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
            AND i.entity_type = k.entity_type AND i.server_id = k.server_id
            -- a mapping that a record may need is deleted by a later scan of mappings
            AND CASE WHEN \(MappingNeed.isOver) THEN true END
        """
    )

    /// The last lock of the transaction, as always.
    static let horizonStatement = Statement(
        "retention_raise_horizon",
        ["organization", "position"],
        "UPDATE feeds AS f SET horizon = greatest(f.horizon, :position) WHERE f.organization_id = :organization"
    )

    static let statements = [
        pageStatement, deleteStaysStatement, deleteStatement, deleteMappingsStatement, horizonStatement,
    ]
}
