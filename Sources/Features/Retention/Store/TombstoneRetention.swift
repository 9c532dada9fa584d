import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// Deletes tombstones, together with their local ids on all devices, and with mappings that no idempotency record can
/// need.
///
/// All other mappings stay, including mappings of local ids, until ``MappingRetention`` deletes them.
///
/// The feed's horizon becomes the highest position of a deleted tombstone. A client whose cursor is before the horizon
/// must read the feed from the beginning, because the client may have missed a deletion.
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

        /// The columns by which a tombstone is found if it has not changed.
        static let tombstone = Columns<Row>(
            .value("organization_id", \.organization),
            .value("entity_type", \.type),
            .value("id", \.id),
            .value("feed_position", \.feedPosition)
        )

        /// The columns by which the creator's mapping is found.
        static let mapping = Columns<Row>(
            .value("organization_id", \.organization),
            .value("user_id", \.user),
            .value("client_id", \.clientID),
            .value("entity_type", \.type),
            .value("server_id", \.id)
        )
    }

    let organization: UUID
    let cutoffs: RetentionCutoffs

    private var localIDs: LocalIDRetention { LocalIDRetention(organization: organization, now: cutoffs.now) }

    func page(after place: RetentionPosition?, limit: Int) -> Query {
        var last = (age: Timestamp.longAgo, type: "", id: "")
        if case .tombstone(let age, let key) = place { last = (age, key.type, key.id) }
        return Self.pageStatement(
            organization: organization,
            after_age: last.age,
            after_type: last.type,
            after_id: last.id,
            cutoff: cutoffs.everything,
            limit: limit
        )
    }

    func row(_ row: inout RowReader) throws -> Row {
        Row(
            organization: organization,
            type: try row.read("entity_type"),
            id: try row.read("id"),
            user: try row.read("owner_id"),
            clientID: try row.read("client_id"),
            feedPosition: try row.read("feed_position"),
            deletedAt: try row.read("updated_at")
        )
    }

    func others(excluding rows: [Row], on connection: Connection) async throws -> Set<UUID> {
        Set(try await localIDs.named(rows.map(\.key), on: connection).map(\.user))
    }

    func drop(_ rows: [Row], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int {
        let needed = try await NeededIDs(of: lanes, on: connection)
        // a tombstone stays while an open mutation may need its local id
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
            last = max(last, try row.read("feed_position", as: Int64.self))
        }
        let mapped = sorted.filter { $0.clientID != nil && entities.contains($0.key) }
        // an open mutation may still need the client id
        let free = mapped.filter { row in row.clientID.map { !needed.contains($0, of: row.user) } ?? false }
        if !free.isEmpty {
            _ = try await connection.run(Row.mapping.query(Self.deleteMappingsStatement, free, at: cutoffs.now))
        }
        if !mapped.isEmpty {
            _ = try await connection.run(Row.mapping.query(Self.keepMappingsStatement, mapped, at: cutoffs.now))
        }
        let dropped = entities.sorted { ($0.type, $0.id) < ($1.type, $1.id) }
        try await localIDs.drop(of: dropped, on: connection)
        _ = try await connection.run(ReferenceRows.drop(of: dropped.map { (organization, $0) }))
        _ = try await connection.run(Self.horizonStatement(organization: organization, position: last))
        return gone.count
    }

    /// Deletes the rows that record the channels of tombstones. These tombstones are deleted next.
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

    /// Deletes tombstones. An entity that was written after it was read has another position, and stays.
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

    /// Deletes mappings that no idempotency record can need.
    ///
    /// Even a record that contains only the server id may need the mapping: if the repeat contains the client id, the
    /// comparison of the repeat with the record needs the mapping.
    static let deleteMappingsStatement = Statement(
        "retention_delete_mappings_of_tombstones",
        Row.mapping.inputs + ["now"],
        """
        DELETE FROM id_mappings AS i
        USING \(Row.mapping.unnested(as: "k"))
        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
            AND i.entity_type = k.entity_type AND i.server_id = k.server_id
            AND CASE WHEN \(MappingNeed.isOver(since: ":now::timestamptz")) THEN true END
        """
    )

    /// Records the present time as the last use of the remaining mappings. ``MappingRetention`` deletes them when no
    /// older idempotency records remain.
    static let keepMappingsStatement = Statement(
        "retention_keep_mappings_of_tombstones",
        Row.mapping.inputs + ["now"],
        """
        UPDATE id_mappings AS i
        SET last_used_at = :now
        FROM \(Row.mapping.unnested(as: "k"))
        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
            AND i.entity_type = k.entity_type AND i.server_id = k.server_id
        """
    )

    /// Raises the horizon. The horizon's lock is always the last lock of the transaction.
    static let horizonStatement = Statement(
        "retention_raise_horizon",
        ["organization", "position"],
        "UPDATE feeds AS f SET horizon = greatest(f.horizon, :position) WHERE f.organization_id = :organization"
    )

    static let statements = [
        pageStatement, deleteStaysStatement, deleteStatement, deleteMappingsStatement, keepMappingsStatement,
        horizonStatement,
    ]
}
