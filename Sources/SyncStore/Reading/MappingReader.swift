public import Foundation
import Postgres
public import SyncModel

/// Looks up and lists id mappings, one user's own (seed 000, `user_scoped_lookup`).
public struct MappingReader: Sendable {
    let pool: Pool
    let failure: StoreFailure

    /// The mappings of client ids, pending and failed ones too; unknown ids are left out.
    ///
    /// - Parameter entityType: narrows the answer to one type.
    public func lookup(
        _ clientIDs: [UUID],
        entityType: String?,
        organization: UUID,
        user: UUID
    ) async throws(Problem) -> [IDMapping] {
        var parameters = Parameters()
        parameters.add(organization)
        parameters.add(user)
        parameters.add(Array(Set(clientIDs)))
        parameters.add(entityType)
        do {
            let rows = try await pool.run([Query(Self.statement, parameters)])[0]
            return try (0..<rows.count).map { try Self.mapping(rows, $0) }
        } catch {
            throw failure.problem(error, doing: "look up id mappings")
        }
    }

    /// Reads a mapping as ``statement`` gives it, from the columns that start at `first`.
    static func mapping(_ rows: Rows, _ row: Int, from first: Int = 0) throws -> IDMapping {
        IDMapping(
            entityType: try rows.string(row, first + 1),
            clientID: try rows.uuid(row, first),
            serverID: try rows.serverID(row, first + 2),
            status: try rows.choice(row, first + 4),
            mutationID: try rows.uuid(row, first + 5)
        )
    }

    static let statement = Statement(
        "mappings_lookup",
        """
        SELECT i.client_id, i.entity_type, i.server_id, i.server_id_is_integer, i.status, i.mutation_id
        FROM id_mappings i
        WHERE i.organization_id = $1 AND i.user_id = $2 AND i.client_id = ANY ($3::uuid[])
            AND ($4::text IS NULL OR i.entity_type = $4)
        ORDER BY i.client_id, i.entity_type
        """
    )
}
