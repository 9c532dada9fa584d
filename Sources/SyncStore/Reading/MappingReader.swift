package import FoundationEssentials
import Postgres
package import SyncModel

/// Looks up and lists the id mappings of one user (specification 000 in docs/spec, `user_scoped_lookup`).
package struct MappingReader: Sendable {
    let pool: Pool
    let failure: StoreFailure

    /// Returns the mappings of client ids, including pending and failed mappings.
    ///
    /// The result contains no unknown ids.
    ///
    /// - Parameter entityType: limits the result to one type.
    package func lookup(
        _ clientIDs: [UUID],
        entityType: String?,
        organization: UUID,
        user: UUID
    ) async throws(Problem) -> [IDMapping] {
        do {
            let rows = try await pool.run([
                Self.statement(
                    organization: LaneKey(organization: organization, user: user).organization,
                    user: LaneKey(organization: organization, user: user).user,
                    client_ids: Array(Set(clientIDs)),
                    entity_type: entityType
                )
            ])[0]
            return try rows.read(Self.mapping)
        } catch {
            throw failure.problem(error, doing: "look up id mappings")
        }
    }

    /// Returns the permanent ids of a device's local ids, which the device or a pull assigned.
    ///
    /// The result contains neither unknown ids nor unconfirmed assignments of a pull.
    package func lookup(
        _ numbers: [Int64],
        of device: UUID,
        entityType: String,
        lane: LaneKey
    ) async throws(Problem) -> [IDMapping] {
        do {
            let rows = try await pool.run([
                Self.numbersStatement(
                    organization: lane.organization,
                    user: lane.user,
                    device: device,
                    entity_type: entityType,
                    local_ids: Array(Set(numbers))
                )
            ])[0]
            return try rows.read { row in
                let number: Int64 = try row.read("local_id")
                return IDMapping(
                    entityType: entityType,
                    client: LocalID(entityType: entityType, number: number).name(on: device),
                    serverID: try row.serverID(),
                    status: try row.choice("status"),
                    mutationID: device
                )
            }
        } catch {
            throw failure.problem(error, doing: "look up ids of a device")
        }
    }

    /// The columns, for a table `id_mappings` with the alias `i`.
    static let list = "i.entity_type, i.client_id, i.server_id, i.server_id_is_integer, i.status, i.mutation_id"

    /// Reads the columns of ``list``.
    static func mapping(_ row: inout RowReader) throws -> IDMapping {
        IDMapping(
            entityType: try row.read("entity_type"),
            client: .id(try row.read("client_id")),
            serverID: try row.serverID(),
            status: try row.choice("status"),
            mutationID: try row.read("mutation_id")
        )
    }

    static let statement = Statement(
        "mappings_lookup",
        ["organization", "user", "client_ids", "entity_type"],
        """
        SELECT \(list)
        FROM id_mappings i
        WHERE i.organization_id = :organization AND i.user_id = :user AND i.client_id = ANY (:client_ids::uuid[])
            AND (:entity_type::text IS NULL OR i.entity_type = :entity_type)
        ORDER BY i.client_id, i.entity_type
        """
    )

    /// Reads the server ids of local ids.
    ///
    /// For a local id without a server id, the statement also reads the state of the create, which determines whether
    /// the local id will get a server id.
    static let numbersStatement = Statement(
        "mappings_lookup_numbers",
        ["organization", "user", "device", "entity_type", "local_ids"],
        """
        SELECT k.local_id, coalesce(l.server_id, l.same_as) AS server_id, l.server_id_is_integer,
            CASE WHEN coalesce(l.server_id, l.same_as) IS NOT NULL THEN 'resolved'
            ELSE coalesce((
                SELECT CASE WHEN m.status IN ('failed', 'discarded') THEN 'failed' ELSE 'pending' END FROM mutations m
                WHERE m.organization_id = :organization AND m.user_id = :user AND m.id = l.mutation_id), 'failed')
            END AS status
        FROM unnest(:local_ids::int8[]) AS k (local_id)
        CROSS JOIN LATERAL (
            SELECT * FROM local_ids x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.device_id = :device AND x.entity_type = :entity_type
                AND x.local_id = k.local_id
            OFFSET 0
        ) l
        ORDER BY k.local_id
        """
    )

    static let statements = [statement, numbersStatement]
}

/// Lists a user's id mappings in the order of their last changes.
///
/// Every change of a mapping raises the lane's change position under the lane's lock, and the mapping gets this
/// position. One statement reads the lane's position and the mappings in one snapshot. Therefore every change up to the
/// position in this snapshot is committed, and a page never skips a change that is not committed yet. If a mapping
/// changes again, it is listed again.
extension MappingReader {
    /// The number of mappings that a page reads for each mapping that it can contain.
    ///
    /// This factor limits the work if few mappings match the filter.
    static let scanFactor = 10

    /// Returns a page of mappings.
    ///
    /// With a filter, a page that is not the last can have fewer mappings than the limit, or be empty.
    ///
    /// - Parameters:
    ///   - since: `next` of the previous page; nil to start at the beginning.
    ///   - statuses: the requested statuses; empty for all.
    ///   - limit: 1 to 1,000.
    /// - Throws: `invalid_request` for an invalid cursor, or for a cursor of another filter; `cursor_expired`.
    package func list(
        since: String?,
        statuses: [IDMapping.Status],
        limit: Int,
        organization: UUID,
        user: UUID
    ) async throws(Problem) -> MappingPage {
        let filter = FeedCursor.filter(statuses.map(\.rawValue))
        let cursor = try Self.cursor(since, filter)
        // one more mapping than a page contains shows whether there are further mappings
        let scan = statuses.isEmpty ? limit + 1 : limit * Self.scanFactor
        let start = Start(cursor?.place)
        do {
            let rows = try await pool.run([
                Self.listStatement(
                    organization: LaneKey(organization: organization, user: user).organization,
                    user: LaneKey(organization: organization, user: user).user,
                    position: start.change,
                    client: start.clientID,
                    entity_type: start.entityType,
                    statuses: statuses.map(\.rawValue),
                    scan: Int64(scan),
                    limit: limit + 1
                )
            ])[0]
            return try MappingPage(rows, of: user, limit: limit, cursor: cursor, filter: filter, statuses: statuses)
        } catch {
            throw failure.problem(error, doing: "list id mappings")
        }
    }

    private static func cursor(_ text: String?, _ filter: UInt64) throws(Problem) -> MappingCursor? {
        guard let text else { return nil }
        guard let cursor = MappingCursor(text), !cursor.place.isAtMutation else {
            throw .invalidParameter("since is not a cursor of this list")
        }
        guard cursor.filter == filter else {
            throw .invalidParameter("since was issued for another status filter; start over without since")
        }
        return cursor
    }

    /// Lists mappings. The first columns describe the lane, and the place at which the scan was cut off.
    ///
    /// If no mapping matched the filter, the result is a row without a mapping.
    static let listStatement = Statement(
        "mappings_list",
        ["organization", "user", "position", "client", "entity_type", "statuses", "scan", "limit"],
        """
        WITH s AS MATERIALIZED (
            SELECT x.client_id, x.entity_type, x.server_id, x.server_id_is_integer, x.status, x.mutation_id,
                x.change_position
            FROM id_mappings x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.change_position >= :position
                AND (x.change_position, x.client_id, x.entity_type) > (:position, :client, :entity_type)
            ORDER BY x.change_position, x.client_id, x.entity_type
            LIMIT :scan
        )
        SELECT f.epoch, coalesce(l.change_position, 0) AS head, e.change_position AS seen_to,
            e.client_id AS seen_client_id, e.entity_type AS seen_type, i.change_position, \(list)
        FROM feeds f
        LEFT JOIN lanes l ON l.organization_id = :organization AND l.user_id = :user
        LEFT JOIN LATERAL (
            SELECT y.change_position, y.client_id, y.entity_type
            FROM s y
            ORDER BY y.change_position, y.client_id, y.entity_type
            OFFSET :scan - 1
        ) e ON true
        LEFT JOIN LATERAL (
            SELECT z.*
            FROM s z
            WHERE cardinality(:statuses::text[]) = 0 OR z.status = ANY (:statuses)
            ORDER BY z.change_position, z.client_id, z.entity_type
            LIMIT :limit
        ) i ON true
        WHERE f.organization_id = :organization
        ORDER BY i.change_position, i.client_id, i.entity_type
        """
    )
}

/// The mapping after which a page begins.
private struct Start {
    var change: Int64 = 0
    var clientID = UUID.least
    /// The name of the entity type. Initially it is empty, which precedes the names of all types.
    var entityType = ""

    init(_ place: LanePlace?) {
        guard let place else { return }
        if case .mapping(let clientID, let entityType) = place.last {
            (change, self.clientID, self.entityType) = (place.change, clientID, entityType)
        } else {
            // all mappings of that change were read
            change = min(place.change, .max - 1) + 1
        }
    }
}

extension LanePlace {
    /// Whether this place belongs to a list of mutations.
    fileprivate var isAtMutation: Bool {
        if case .mutation = last { true } else { false }
    }
}

// MARK: - MappingPage

/// A page of a user's id mappings.
package struct MappingPage: Sendable {
    /// A row of ``MappingReader/listStatement``.
    private struct Row {
        let epoch: Int64
        let head: Int64
        /// The place at which the scan was cut off; nil if it was not cut off.
        let seen: LanePlace?
        let mapping: (change: Int64, mapping: IDMapping)?

        init(_ row: inout RowReader) throws {
            epoch = try row.read("epoch")
            head = try row.read("head")
            let seen: Int64? = try row.read("seen_to")
            let (clientID, type) = (
                try row.read("seen_client_id", as: UUID?.self), try row.read("seen_type", as: String?.self)
            )
            if let seen, let clientID, let type {
                self.seen = LanePlace(change: seen, last: .mapping(clientID: clientID, entityType: type))
            } else {
                self.seen = nil
            }
            mapping = try row.read("change_position", as: Int64?.self).map { ($0, try MappingReader.mapping(&row)) }
        }
    }

    package let mappings: [IDMapping]
    package let next: MappingCursor
    /// Whether the page reaches the present end of the list.
    package let isUpToDate: Bool

    /// - Parameter user: the owner of the mappings.
    init(
        _ rows: Rows,
        of user: UUID,
        limit: Int,
        cursor: MappingCursor?,
        filter: UInt64,
        statuses: [IDMapping.Status]
    ) throws {
        guard rows.count > 0 else { throw Problem(.organizationUnknown, "the organization has no feed") }
        let found = try rows.read(Row.init)
        let (epoch, head) = (LaneEpoch.mixed(found[0].epoch, user), found[0].head)
        if let cursor {
            // cursors from earlier versions of Sluice have an epoch that is not mixed with the user
            let isOfNow = [epoch, found[0].epoch].contains(cursor.epoch)
            guard isOfNow, cursor.place.change <= head else { throw Self.expired(statuses) }
        }
        let changed = found.compactMap(\.mapping)
        mappings = changed.prefix(limit).map(\.mapping)
        // if the page is full, the scan ends at the last mapping of the page; if not, it ends at the last mapping that
        // was read, or at the end of the list
        let place: LanePlace
        if changed.count > limit {
            let (change, last) = changed[limit - 1]
            place = LanePlace(change: change, last: .mapping(clientID: last.clientID, entityType: last.entityType))
        } else {
            place = found[0].seen ?? LanePlace(change: head)
        }
        next = MappingCursor(epoch: epoch, filter: filter, place: place)
        isUpToDate = place.last == nil
    }

    private static func expired(_ statuses: [IDMapping.Status]) -> Problem {
        var problem = Problem(
            .cursorExpired,
            "this cursor was issued before a restore; start over from the path in `snapshot`"
        )
        let query = statuses.isEmpty ? "" : "?status=" + statuses.map(\.rawValue).joined(separator: ",")
        problem.snapshot = "/v1/id-mappings" + query
        return problem
    }
}
