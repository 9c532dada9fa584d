package import Foundation
import Postgres
package import SyncModel

/// Looks up and lists id mappings, one user's own (seed 000, `user_scoped_lookup`).
package struct MappingReader: Sendable {
    let pool: Pool
    let failure: StoreFailure

    /// The mappings of client ids, pending and failed ones too.
    ///
    /// Unknown ids are left out.
    ///
    /// - Parameter entityType: narrows the answer to one type.
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

    /// The permanent ids of a device's local ids.
    ///
    /// The device or a pull assigned them; unknown ids, and unconfirmed assignments of a pull, are left out.
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
                let number = try row.int64("local_id")
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

    /// Columns of `id_mappings`, for a table that is called `i`.
    static let list = "i.entity_type, i.client_id, i.server_id, i.server_id_is_integer, i.status, i.mutation_id"

    /// Reads the columns of ``list``.
    static func mapping(_ row: inout RowReader) throws -> IDMapping {
        IDMapping(
            entityType: try row.string("entity_type"),
            client: .id(try row.uuid("client_id")),
            serverID: try row.serverID(),
            status: try row.choice("status"),
            mutationID: try row.uuid("mutation_id")
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

    /// For an id that leads nowhere, the create's state shows whether it will.
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
