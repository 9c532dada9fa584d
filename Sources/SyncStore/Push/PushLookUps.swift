import FoundationEssentials
import Postgres
import SyncModel

/// The names in one push that are looked up.
struct PushLookUps {
    /// Keys of mutations and of refusals.
    private(set) var keys: Set<UUID> = []
    /// Ids of mutations.
    private(set) var ids: Set<UUID> = []
    /// Client ids of the user.
    private(set) var clients: Set<UUID> = []
    /// The UUIDs of local ids that the push creates.
    ///
    /// Other local ids are always looked up.
    private(set) var created: Set<UUID> = []

    /// Returns the look-ups made at first.
    ///
    /// - Parameter watermark: the watermark above which keys are new; nil to look up every key.
    static func initial(for push: PushRequest, above watermark: Int64?) -> PushLookUps {
        var wanted = PushLookUps()
        for entry in push.entries {
            let isNew = isNew(entry, above: watermark)
            if let key = entry.idempotencyKey, !isNew { wanted.keys.insert(key) }
            // below the watermark the key alone decides
            if let id = entry.id, watermark == nil { wanted.ids.insert(id) }
            guard let mutation = entry.said else { continue }
            wanted.ids.formUnion(mutation.dependencyIDs)
            wanted.clients.formUnion(mutation.dependencyIDs)
            wanted.clients.formUnion(mutation.references)
            if case .id(let id) = mutation.entity.client, !(isNew && mutation.operation == .create) {
                wanted.clients.insert(id)
            }
        }
        return wanted
    }

    /// Returns the look-ups needed only before an entry is refused, which is rare.
    static func deferred(of push: PushRequest, above watermark: Int64?, excluding wanted: PushLookUps) -> PushLookUps {
        var rest = PushLookUps()
        for entry in push.entries {
            let isNew = isNew(entry, above: watermark)
            if let key = entry.idempotencyKey, isNew { rest.keys.insert(key) }
            if let id = entry.id, watermark != nil { rest.ids.insert(id) }
            guard isNew, let mutation = entry.said, mutation.operation == .create else { continue }
            switch mutation.entity.client {
            case .id(let id): rest.clients.insert(id)
            case .number(_, let standIn): rest.created.insert(standIn)
            case nil: break
            }
        }
        rest.keys.subtract(wanted.keys)
        rest.ids.subtract(wanted.ids)
        rest.clients.subtract(wanted.clients)
        return rest
    }

    /// Whether an entry is new: its number is above the watermark.
    ///
    /// The unique indexes detect the exceptions.
    private static func isNew(_ entry: PushEntry, above watermark: Int64?) -> Bool {
        watermark.map { (entry.sequenceNumber ?? 0) > $0 } ?? false
    }
}

/// The look-ups of entities that a group writes.
struct EntityLookUps {
    private var rows: [PushEntityRow] = []

    var isEmpty: Bool { rows.isEmpty }

    mutating func add(_ row: PushEntityRow) { rows.append(row) }

    /// The query for the latest open mutation on each entity.
    var open: Query {
        // one push can write one entity five hundred times
        let rows = rows.count > 1 ? Array(Set(rows)) : rows
        return rows.contains(where: \.needsNumber)
            ? PushEntityRow.openOwn.query(GroupStatements.openOwn, rows)
            : PushEntityRow.open.query(GroupStatements.open, rows)
    }

    /// Reads the entities, with or without locks.
    ///
    /// - Parameter documentBytes: the maximum bytes of documents to read; other documents are left out.
    func query(_ access: GroupReader.Access, documentBytes: Int) -> Query {
        let direct = rows.compactMap { row in
            row.entity.serverID.map { (row.device.lane.organization, EntityKey(type: row.entity.type, id: $0.text)) }
        }
        let own = rows.filter(\.needsNumber)
        var parameters = EntityRows.keys.parameters(direct)
        PushEntityRow.mapped.add(rows.filter { $0.entity.serverID == nil && !$0.needsNumber }, to: &parameters)
        let isLocking = access == .locking
        guard !own.isEmpty else {
            parameters.add(documentBytes)
            return Query(isLocking ? EntityStatements.lockBounded : EntityStatements.lookAtBounded, parameters)
        }
        PushEntityRow.own.add(own, to: &parameters)
        parameters.add(documentBytes)
        return Query(isLocking ? EntityStatements.lockOwnEntities : EntityStatements.lookAtOwnEntities, parameters)
    }
}
