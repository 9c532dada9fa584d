import Foundation
import Postgres
import SyncModel

/// Rows of `entities` on their way in and out.
enum EntityRows {
    /// What a transaction writes of one organization, in the order of execution, once per entity.
    typealias Writes = (organization: UUID, writes: [(key: EntityKey, state: EntityState)])

    /// Takes in what ``EntityStatements/lockEntities`` or ``EntityStatements/lookAtEntities`` found.
    static func load(_ rows: Rows, into tables: inout [UUID: EntityTable], _ seals: Seals) throws {
        for var row in rows {
            let organization = try row.uuid("organization_id")
            let key = EntityKey(type: try row.string("entity_type"), id: try row.string("id"))
            var unreadable: [String] = []
            let isIntegerID = try row.bool("id_is_integer")
            let version = try row.int64("version")
            let isDeleted = try row.bool("is_deleted")
            let document = try seals[organization].read(
                json: row.optionalBytes("document"),
                as: .document(type: key.type, id: key.id),
                &unreadable
            )
            var state = EntityState(
                isIntegerID: isIntegerID,
                version: version,
                isDeleted: isDeleted,
                document: document,
                owner: try row.uuid("owner_id"),
                clientID: try row.optionalUUID("client_id"),
                lastWriter: Writer(user: try row.uuid("updated_by"), device: try row.uuid("updated_on")),
                runBase: try row.int64("run_base"),
                isStored: true,
                etag: try row.optionalString("etag")
            )
            state.isUnreadable = !unreadable.isEmpty
            tables[organization, default: EntityTable()].load(key, state)
        }
    }

    /// The documents as they are stored, of entities that have one, of what ``EntityStatements/lockEntities`` found.
    static func documents(_ rows: Rows) throws -> [(key: EntityKey, document: [UInt8])] {
        try (0..<rows.count).compactMap { row in
            guard let document = try rows.optionalBytes(row, 6) else { return nil }
            return (EntityKey(type: try rows.string(row, 1), id: try rows.string(row, 2)), document)
        }
    }

    /// The query that locks entities by their server ids.
    static func lock(_ keys: [(organization: UUID, key: EntityKey)]) -> Query {
        var parameters = Parameters()
        parameters.add(keys.map(\.organization))
        parameters.add(keys.map(\.key.type))
        parameters.add(keys.map { Optional($0.key.id) })
        // no client ids
        parameters.add([UUID]())
        parameters.add([UUID]())
        parameters.add([UUID?]())
        parameters.add([String]())
        return Query(EntityStatements.lockEntities, parameters)
    }

    /// The query that raises the feeds of organizations that write something: the last lock of a transaction.
    static func raiseFeeds(_ changes: [Writes]) -> Query {
        var parameters = Parameters()
        parameters.add(changes.map(\.organization))
        parameters.add(changes.map { Int64($0.writes.count) })
        return Query(EntityStatements.raiseFeeds, parameters)
    }

    /// The queries that write entities, at positions below the raised feeds' ends.
    static func write(_ changes: [Writes], now: Timestamp, _ seals: Seals) throws(SealError) -> [Query] {
        var rows = changes.flatMap { organization, writes in
            writes.enumerated().map { place, write in
                EntityRow(
                    organization: organization,
                    key: write.key,
                    state: write.state,
                    beforeEnd: Int64(writes.count - 1 - place)
                )
            }
        }
        let areAsStored =
            seals.arePlain
            && !rows.contains { $0.state.document.map { SealedText.needsEscape(json: $0) } ?? false }
        if !areAsStored { for index in rows.indices { try rows[index].seal(seals) } }
        let new = rows.filter { !$0.state.isStored }
        let known = rows.filter(\.state.isStored)
        var queries: [Query] = []
        if !new.isEmpty { queries.append(EntityRow.columns.query(EntityStatements.makeEntities, new, at: now)) }
        if !known.isEmpty { queries.append(EntityRow.columns.query(EntityStatements.changeEntities, known, at: now)) }
        return queries
    }
}

/// An entity to be written, and how many of its organization's writes in this transaction come after it.
struct EntityRow {
    let organization: UUID
    let key: EntityKey
    var state: EntityState
    let beforeEnd: Int64

    static let columns = Columns<EntityRow>(
        .uuid("organization_id", \.organization),
        .text("entity_type", \.key.type),
        .text("id", \.key.id),
        .bool("id_is_integer", \.state.isIntegerID),
        .int8("version", \.state.version),
        .bool("is_deleted", \.state.isDeleted),
        .json("document", \.state.document),
        .int8("before_end", \.beforeEnd),
        .uuid("owner_id", \.state.owner),
        .uuid("client_id", \.state.clientID),
        .uuid("updated_by", \.state.lastWriter.user),
        .uuid("updated_on", \.state.lastWriter.device),
        .int8("run_base", \.state.runBase),
        .text("etag", \.state.etag)
    )

    /// Puts the document into the form in which it is stored.
    mutating func seal(_ seals: Seals) throws(SealError) {
        let place = SealedPlace.document(type: key.type, id: key.id)
        state.document = try seals[organization].seal(json: state.document, as: place)
    }
}
