import FoundationEssentials
package import Postgres
import SyncModel

/// Reads and writes rows of `entity_references`.
package enum ReferenceRows {
    /// A reference of an entity to another entity.
    struct Row {
        let organization: UUID
        let entity: EntityKey
        let reference: EntityReference

        static let columns = Columns<Row>(
            .value("organization_id", \.organization),
            .value("to_type", \.reference.target.type),
            .value("to_id", \.reference.target.id),
            .value("entity_type", \.entity.type),
            .value("id", \.entity.id),
            .value("member", \.reference.member)
        )
    }

    /// The queries that replace the references of written entities.
    ///
    /// The queries also store unchanged references, because the entity may have been written before the relation was
    /// declared.
    static func write(_ rows: [EntityRow]) -> [Query] {
        let changed = rows.filter { $0.state.references != nil }
        guard !changed.isEmpty else { return [] }
        let known = changed.filter { $0.state.isStored && $0.state.replacesReferences }
            .map { ($0.organization, $0.key) as EntityRows.Key }
        let references = changed.flatMap { row in
            (row.state.references ?? []).map { Row(organization: row.organization, entity: row.key, reference: $0) }
        }
        return (known.isEmpty ? [] : [drop(of: known)])
            + (references.isEmpty ? [] : [Row.columns.query(writeStatement, references)])
    }

    /// The query that removes the references of entities.
    package static func drop(of entities: [EntityRows.Key]) -> Query {
        EntityRows.keys.query(dropStatement, entities)
    }

    /// The query that finds, in one organization, the referrers of the entities that may be deleted.
    ///
    /// It also finds the referrers of the entities that a cascade may delete with them.
    static func find(_ deleted: [EntityKey], of organization: UUID, _ relations: EntityRelations) -> Query {
        let cascading = relations.cascading
        return Query(
            findStatement,
            Parameters(
                of: organization,
                deleted.map(\.type),
                deleted.map(\.id),
                cascading.map(\.type),
                cascading.map(\.member),
                EntityRelations.limit + 1
            )
        )
    }

    /// Reads the rows of ``find(_:of:_:)``, grouped by the entity to which they refer.
    static func read(_ rows: Rows, of deleted: [EntityKey]) throws -> [EntityKey: FoundReferrers] {
        var found = Dictionary(deleted.map { ($0, FoundReferrers()) }) { first, _ in first }
        for var row in rows {
            let target = try EntityKey(type: row.read("to_type"), id: row.read("to_id"))
            found[target, default: FoundReferrers()].entities.insert(try row.entityKey())
        }
        if rows.count > EntityRelations.limit { for key in deleted { found[key]?.isCut = true } }
        return found
    }

    private static let writeStatement = Statement(
        "entity_references_write",
        Row.columns.inputs,
        """
        INSERT INTO entity_references AS r (\(Row.columns.names))
        SELECT k.* FROM \(Row.columns.unnested(as: "k"))
        ON CONFLICT DO NOTHING
        """
    )

    static let dropStatement = Statement(
        "entity_references_drop",
        EntityRows.keys.inputs,
        """
        DELETE FROM entity_references AS r
        USING \(EntityRows.keys.unnested(as: "k"))
        WHERE r.organization_id = k.organization_id AND r.entity_type = k.entity_type AND r.id = k.id
        """
    )

    /// The search follows each reference once, so that it ends even if references form a cycle. Two limits bound the
    /// number of rows that are read: one for each entity, and one in total.
    static let findStatement = Statement(
        "entity_references_find",
        ["organization", "types", "ids", "cascading_types", "cascading_members", "limit"],
        """
        WITH RECURSIVE found AS (
            SELECT x.to_type, x.to_id, x.entity_type, x.id, x.member
            FROM unnest(:types::text[], :ids::text[]) AS k (entity_type, id)
            CROSS JOIN LATERAL (
                SELECT r.to_type, r.to_id, r.entity_type, r.id, r.member FROM entity_references r
                WHERE r.organization_id = :organization AND r.to_type = k.entity_type AND r.to_id = k.id
                LIMIT :limit::int8
            ) x
            UNION
            SELECT x.to_type, x.to_id, x.entity_type, x.id, x.member
            FROM found f
            JOIN unnest(:cascading_types::text[], :cascading_members::text[]) AS c (entity_type, member)
                ON c.entity_type = f.entity_type AND c.member = f.member
            CROSS JOIN LATERAL (
                SELECT r.to_type, r.to_id, r.entity_type, r.id, r.member FROM entity_references r
                WHERE r.organization_id = :organization AND r.to_type = f.entity_type AND r.to_id = f.id
                LIMIT :limit::int8
            ) x
        )
        SELECT f.to_type, f.to_id, f.entity_type, f.id FROM found f LIMIT :limit::int8
        """
    )

    static let all = [writeStatement, dropStatement, findStatement]
}
