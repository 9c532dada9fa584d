import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// Deletes a mapping if its entity does not exist, the mapping was not used for the storage period, and no idempotency
/// record can need the mapping.
///
/// Mappings of existing entities stay. All mappings are scanned once a day. There is no index of unused mappings,
/// because such an index would make every create slower.
struct MappingRetention: Retention {
    /// The interval at which all mappings of an organization are scanned, in seconds.
    static let interval: Double = 86_400

    struct Row: RetentionRow {
        let user: UUID
        let clientID: UUID
        let type: String
        let isDue: Bool

        var place: RetentionPosition { .mapping(user: user, client: clientID) }
    }

    let organization: UUID
    let cutoffs: RetentionCutoffs

    /// The last use may be up to a day later than the recorded use, because a use is recorded at most once a day.
    private var cutoff: Timestamp { cutoffs.everything.adding(seconds: -MappingUse.precision) }

    func page(after place: RetentionPosition?, limit: Int) -> Query {
        let last = Self.keys(of: place) ?? (user: .least, client: .least)
        return Self.pageStatement(
            organization: organization,
            after_user: last.user,
            after_client: last.client,
            cutoff: cutoff,
            limit: limit
        )
    }

    func row(_ row: inout RowReader) throws -> Row {
        Row(
            user: try row.read("user_id"),
            clientID: try row.read("client_id"),
            type: try row.read("entity_type"),
            isDue: try row.read("is_due")
        )
    }

    func drop(_ rows: [Row], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int {
        // an open mutation may need the client id, regardless of its last use
        let needed = try await NeededIDs(of: lanes, on: connection)
        let free = rows.filter { !needed.contains($0.clientID, of: $0.user) }
        guard !free.isEmpty else { return 0 }
        let names = free.map {
            MappingName(
                lane: LaneKey(organization: organization, user: $0.user),
                clientID: $0.clientID,
                entityType: $0.type
            )
        }
        return try await connection.run(MappingName.columns.query(Self.deleteStatement, names, at: cutoff)).affected
    }

    func record(_ place: RetentionPosition?) -> Query? {
        let last = Self.keys(of: place)
        return Self.noteStatement(
            organization: organization,
            user: last?.user,
            client: last?.client,
            seen_at: last == nil ? cutoffs.now : nil
        )
    }

    private static func keys(of place: RetentionPosition?) -> (user: UUID, client: UUID)? {
        if case .mapping(let user, let client) = place { (user, client) } else { nil }
    }

    /// SQL: whether a mapping `i` was not used since the parameter `cutoff`, and is not needed. Mappings of older
    /// gateways have no recorded last use, so the time of their resolution or creation is used instead.
    private static func isUnused(_ cutoff: String) -> String {
        """
        i.status <> 'pending' AND coalesce(i.last_used_at, i.resolved_at, i.created_at) < \(cutoff)
                -- with EXISTS, the planner could hash all entities
                AND (SELECT e.id FROM entities e
                     WHERE e.organization_id = i.organization_id AND e.entity_type = i.entity_type AND e.id = i.server_id
                     LIMIT 1) IS NULL
                AND \(MappingNeed.isOver())
        """
    }

    /// Reads a page of mappings. A client id can have a mapping for each type, and all of these mappings are on one
    /// page.
    static let pageStatement = Statement(
        "retention_mappings",
        ["organization", "after_user", "after_client", "cutoff", "limit"],
        """
        SELECT i.user_id, i.client_id, i.entity_type, coalesce(\(isUnused(":cutoff")), false) AS is_due
        FROM (
            SELECT * FROM id_mappings x
            WHERE x.organization_id = :organization AND (x.user_id, x.client_id) > (:after_user, :after_client)
            ORDER BY x.user_id, x.client_id
            FETCH FIRST :limit ROWS WITH TIES
        ) i
        """
    )

    static let deleteStatement = Statement(
        "retention_delete_mappings",
        MappingName.columns.inputs + ["cutoff"],
        """
        DELETE FROM id_mappings AS i
        USING \(MappingName.columns.unnested(as: "k"))
        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
            AND i.entity_type = k.entity_type AND CASE WHEN \(isUnused(":cutoff")) THEN true END
        """
    )

    static let noteStatement = Statement(
        "retention_note_mappings",
        ["organization", "user", "client", "seen_at"],
        """
        INSERT INTO retention_places AS p (organization_id, mapping_user, mapping_client, mappings_seen_at)
        SELECT o.id, :user, :client, :seen_at FROM organizations o WHERE o.id = :organization
        ON CONFLICT (organization_id) DO UPDATE
        SET mapping_user = excluded.mapping_user, mapping_client = excluded.mapping_client,
            mappings_seen_at = coalesce(excluded.mappings_seen_at, p.mappings_seen_at)
        """
    )

    static let statements = [pageStatement, deleteStatement, noteStatement]
}

/// The client ids that open mutations of some lanes contain. The mappings of these ids stay, regardless of their age.
///
/// Because the lanes are locked, no further id can be added.
struct NeededIDs {
    /// The maximum number of open mutations that are scanned. In lanes beyond this limit, all ids count as needed until
    /// a later run.
    static let limit = 5_000

    private var ids: [UUID: Set<UUID>] = [:]
    private var crowded: Set<UUID> = []
    private let known: Set<UUID>

    init(of lanes: [LaneKey: LaneState], on connection: Connection) async throws {
        known = Set(lanes.keys.map(\.user))
        var (scanned, room): ([LaneKey], Int) = ([], Self.limit)
        // lanes with few open mutations come first, because one large lane could use up the limit for all other lanes
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
            let user: UUID = try row.read("user_id")
            ids[user, default: []].insert(try row.read("id"))
        }
    }

    /// Whether a mapping must stay. If a user's lane is not among the lanes, all mappings of the user stay.
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
