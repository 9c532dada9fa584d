import Postgres
import SyncModel

/// The look-ups of entities that a group writes.
struct EntityLookUps {
    private var rows: [PushEntityRow] = []

    var isEmpty: Bool { rows.isEmpty }

    mutating func add(_ row: PushEntityRow) { rows.append(row) }

    /// The latest open mutation on each.
    var open: Query {
        // a push may write one entity five hundred times
        let rows = rows.count > 1 ? Array(Set(rows)) : rows
        return rows.contains(where: \.needsNumber)
            ? PushEntityRow.openOwn.query(GroupStatements.openOwn, rows)
            : PushEntityRow.open.query(GroupStatements.open, rows)
    }

    /// Reads the entities, with or without locks.
    ///
    /// - Parameter documentBytes: bytes of documents that are read; others are left out.
    func query(_ access: GroupReader.Access, documentBytes: Int) -> Query {
        let direct = rows.compactMap { row in
            row.entity.serverID.map { (row.device.lane.organization, EntityKey(type: row.entity.type, id: $0.text)) }
        }
        let own = rows.filter(\.needsNumber)
        var parameters = EntityRows.keys.parameters(direct)
        PushEntityRow.mapped.add(rows.filter { $0.entity.serverID == nil && !$0.needsNumber }, to: &parameters)
        let isLocking = access == .locking
        guard !own.isEmpty else {
            parameters.add(Int64(documentBytes))
            return Query(isLocking ? EntityStatements.lockBounded : EntityStatements.lookAtBounded, parameters)
        }
        PushEntityRow.own.add(own, to: &parameters)
        parameters.add(Int64(documentBytes))
        return Query(isLocking ? EntityStatements.lockOwnEntities : EntityStatements.lookAtOwnEntities, parameters)
    }
}
