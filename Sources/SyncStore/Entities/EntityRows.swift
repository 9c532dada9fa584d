import Foundation
import Postgres
import SyncModel

/// Rows of `entities` on their way in and out.
enum EntityRows {
    /// What a transaction writes of one organization, in the order of execution, once per entity.
    typealias Writes = (organization: UUID, writes: [(key: EntityKey, state: EntityState)])

    /// Takes in what ``EntityStatements/lockEntities`` or ``EntityStatements/lookAtEntities`` found.
    static func load(_ rows: Rows, into tables: inout [UUID: EntityTable], _ seals: Seals) throws {
        for row in 0..<rows.count {
            let organization = try rows.uuid(row, 0)
            let key = EntityKey(type: try rows.string(row, 1), id: try rows.string(row, 2))
            var unreadable: [String] = []
            let document = try seals[organization].read(
                json: rows.optionalBytes(row, 6),
                as: .document(type: key.type, id: key.id),
                &unreadable
            )
            var state = EntityState(
                isIntegerID: try rows.bool(row, 3),
                version: try rows.int64(row, 4),
                isDeleted: try rows.bool(row, 5),
                document: document,
                owner: try rows.uuid(row, 7),
                clientID: try rows.optionalUUID(row, 8),
                lastWriter: Writer(user: try rows.uuid(row, 9), device: try rows.uuid(row, 10)),
                runBase: try rows.int64(row, 11),
                isStored: true,
                etag: try rows.optionalString(row, 12)
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
        let rows = changes.flatMap { organization, writes in
            writes.enumerated().map { place, write in
                EntityRow(
                    organization: organization,
                    key: write.key,
                    state: write.state,
                    beforeEnd: Int64(writes.count - 1 - place)
                )
            }
        }
        let new = rows.filter { !$0.state.isStored }
        let known = rows.filter(\.state.isStored)
        var queries: [Query] = []
        if !new.isEmpty { queries.append(try query(EntityStatements.makeEntities, new, now, seals)) }
        if !known.isEmpty { queries.append(try query(EntityStatements.changeEntities, known, now, seals)) }
        return queries
    }

    private static func query(
        _ statement: Statement,
        _ rows: [EntityRow],
        _ now: Timestamp,
        _ seals: Seals
    ) throws(SealError) -> Query {
        var parameters = Parameters()
        parameters.add(rows.map(\.organization))
        parameters.add(rows.map(\.key.type))
        parameters.add(rows.map(\.key.id))
        parameters.add(rows.map(\.state.isIntegerID))
        parameters.add(rows.map(\.state.version))
        parameters.add(rows.map(\.state.isDeleted))
        if seals.arePlain,
            !rows.contains(where: { $0.state.document.map { SealedText.needsEscape(json: $0) } ?? false })
        {
            parameters.add(jsons: rows.map(\.state.document))
        } else {
            parameters.add(
                jsons: try rows.map { row throws(SealError) in
                    let place = SealedPlace.document(type: row.key.type, id: row.key.id)
                    return try seals[row.organization].seal(json: row.state.document, as: place)
                }
            )
        }
        parameters.add(rows.map(\.beforeEnd))
        parameters.add(rows.map(\.state.owner))
        parameters.add(rows.map(\.state.clientID))
        parameters.add(rows.map(\.state.lastWriter.user))
        parameters.add(rows.map(\.state.lastWriter.device))
        parameters.add(rows.map(\.state.runBase))
        parameters.add(timestamp: now.microseconds)
        parameters.add(rows.map(\.state.etag))
        return Query(statement, parameters)
    }
}

/// An entity to be written, and how many of its organization's writes in this transaction come after it.
private struct EntityRow {
    let organization: UUID
    let key: EntityKey
    let state: EntityState
    let beforeEnd: Int64
}
