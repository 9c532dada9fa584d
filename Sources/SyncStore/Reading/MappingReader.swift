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
        let parameters = Parameters(
            of: LaneKey(organization: organization, user: user),
            Array(Set(clientIDs)),
            entityType
        )
        do {
            let rows = try await pool.run([Query(Self.statement, parameters)])[0]
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
        let parameters = Parameters(of: lane, device, entityType, Array(Set(numbers)))
        do {
            let rows = try await pool.run([Query(Self.numbersStatement, parameters)])[0]
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
        """
        SELECT \(list)
        FROM id_mappings i
        WHERE i.organization_id = $1 AND i.user_id = $2 AND i.client_id = ANY ($3::uuid[])
            AND ($4::text IS NULL OR i.entity_type = $4)
        ORDER BY i.client_id, i.entity_type
        """
    )

    /// For an id that leads nowhere, the create's state shows whether it will.
    static let numbersStatement = Statement(
        "mappings_lookup_numbers",
        """
        SELECT k.local_id, coalesce(l.server_id, l.same_as) AS server_id, l.server_id_is_integer,
            CASE WHEN coalesce(l.server_id, l.same_as) IS NOT NULL THEN 'resolved'
            ELSE coalesce((
                SELECT CASE WHEN m.status IN ('failed', 'discarded') THEN 'failed' ELSE 'pending' END FROM mutations m
                WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = l.mutation_id), 'failed')
            END AS status
        FROM unnest($5::int8[]) AS k (local_id)
        CROSS JOIN LATERAL (
            SELECT * FROM local_ids x
            WHERE x.organization_id = $1 AND x.user_id = $2 AND x.device_id = $3 AND x.entity_type = $4
                AND x.local_id = k.local_id
            OFFSET 0
        ) l
        ORDER BY k.local_id
        """
    )

    static let statements = [statement, numbersStatement]
}
