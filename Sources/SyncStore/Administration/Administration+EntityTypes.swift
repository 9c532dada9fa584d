public import Foundation
import Postgres
public import SyncModel

extension Administration {
    /// One entity type as JSON; nil when it is not registered.
    public func entityType(_ name: String, in organization: UUID) async throws(Problem) -> [UInt8]? {
        var parameters = Parameters()
        parameters.add(organization)
        parameters.add(name)
        let rows = try await run(Self.getTypeStatement, parameters, "read an entity type")
        guard rows.count > 0 else { return nil }
        do {
            return try EntityTypeRow(rows, 0).json()
        } catch {
            throw failure.problem(error, doing: "read an entity type")
        }
    }

    /// Registers or changes an entity type; absent members keep their values, and a new type has those of its first use
    /// (product rule 16). Nil when there is no such organization.
    ///
    /// - Throws: `id_space_is_immutable` once a mutation or an entity of the type exists; `validation_failed`, also for
    ///   a type that is to be forwarded where there is no upstream.
    public func putEntityType(
        _ name: String,
        in organization: UUID,
        body: [UInt8]
    ) async throws(Problem) -> (created: Bool, json: [UInt8])? {
        guard EntityType.isValidName(name) else {
            let detail = "an entity type's name matches [a-z][a-z0-9_-]{0,63}"
            throw Problem(.validationFailed, pointer: "", rule: Rule.entityType, detail)
        }
        let request = try EntityTypeRequest(body)
        guard try await self.organization(organization) != nil else { return nil }
        do {
            let results = try await pool.transaction { connection in
                let hasUpstream = try await Self.hasUpstream(organization, on: connection)
                if request.isForwarded == true, !hasUpstream { throw Self.noUpstream }
                return try await connection.run([
                    Query(Self.makeTypeStatement, request.making(name, in: organization, hasUpstream: hasUpstream)),
                    Query(Self.changeTypeStatement, request.changing(name, in: organization)),
                ])
            }
            catalog.invalidate(organization)
            guard results[1].count > 0 else {
                let detail = "'\(name)' has mutations or entities: its id space stays as it is; use another type"
                throw Problem(.idSpaceIsImmutable, pointer: "/id_space", rule: "id_space_is_immutable", detail)
            }
            return (results[0].affected > 0, try EntityTypeRow(results[1], 0).json())
        } catch {
            throw failure.problem(error, doing: "write an entity type")
        }
    }

    private static func hasUpstream(_ organization: UUID, on connection: Connection) async throws -> Bool {
        var key = Parameters()
        key.add(organization)
        return try await connection.run(Query(Catalog.upstreamStatement, key)).count > 0
    }

    private static var noUpstream: Problem {
        let detail =
            "the organization has no upstream to forward to; set it first, by PUT /admin/organizations/{id}/upstream"
        return Problem(.validationFailed, pointer: "/upstream", rule: Rule.range, detail)
    }

    // MARK: - Statements

    static let getTypeStatement = Statement(
        "entity_types_get",
        """
        SELECT name, id_space, visibility, default_priority, is_forwarded, is_in_use FROM entity_types
        WHERE organization_id = $1 AND name = $2
        """
    )

    static let makeTypeStatement = Statement(
        "entity_types_make",
        """
        INSERT INTO entity_types AS t (organization_id, name, id_space, visibility, default_priority, is_forwarded)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (organization_id, name) DO NOTHING
        """
    )

    static let changeTypeStatement = Statement(
        "entity_types_change",
        """
        UPDATE entity_types AS t
        SET id_space = coalesce($3, t.id_space), visibility = coalesce($4, t.visibility),
            default_priority = coalesce($5, t.default_priority), is_forwarded = coalesce($6, t.is_forwarded)
        WHERE t.organization_id = $1 AND t.name = $2 AND (NOT t.is_in_use OR coalesce($3, t.id_space) = t.id_space)
        RETURNING t.name, t.id_space, t.visibility, t.default_priority, t.is_forwarded, t.is_in_use
        """
    )
}

extension EntityTypeRequest {
    /// The parameters that register the type; what the request leaves out is as at the type's first use.
    fileprivate func making(_ name: String, in organization: UUID, hasUpstream: Bool) -> Parameters {
        let first = EntityType(firstUseOf: name, hasUpstream: isForwarded ?? hasUpstream)
        var parameters = Parameters()
        parameters.add(organization)
        parameters.add(name)
        parameters.add((idSpace ?? first.idSpace).rawValue)
        parameters.add((visibility ?? first.visibility).rawValue)
        parameters.add(defaultPriority ?? first.defaultPriority)
        parameters.add(first.isForwarded)
        return parameters
    }

    /// The parameters that change the type; null for what stays.
    fileprivate func changing(_ name: String, in organization: UUID) -> Parameters {
        var parameters = Parameters()
        parameters.add(organization)
        parameters.add(name)
        parameters.add(idSpace?.rawValue)
        parameters.add(visibility?.rawValue)
        parameters.add(defaultPriority)
        parameters.add(isForwarded)
        return parameters
    }
}
