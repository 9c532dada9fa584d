import FoundationEssentials
import Postgres
import SyncModel

/// The keys and ids in one push that have to be looked up.
struct PushLookUps {
    /// Keys of mutations and of rejections.
    private(set) var keys: Set<UUID> = []
    /// Ids of mutations.
    private(set) var ids: Set<UUID> = []
    /// Client ids of the user.
    private(set) var clients: Set<UUID> = []
    /// The local ids under which the push creates entities, each as the UUID that represents the local id.
    ///
    /// All other local ids are always looked up.
    private(set) var created: Set<UUID> = []

    /// Returns the first look-ups of a push.
    ///
    /// - Parameter watermark: the watermark above which keys are assumed to be new; nil to look up every key.
    static func initial(for push: PushRequest, above watermark: Int64?) -> PushLookUps {
        var wanted = PushLookUps()
        for entry in push.entries {
            let isNew = isNew(entry, above: watermark)
            if let key = entry.idempotencyKey, !isNew { wanted.keys.insert(key) }
            // with a watermark, only `deferred` looks up the ids of the entries themselves, and only if an entry is
            // about to be refused
            if let id = entry.id, watermark == nil { wanted.ids.insert(id) }
            guard let mutation = entry.content else { continue }
            wanted.ids.formUnion(mutation.dependencyIDs)
            wanted.clients.formUnion(mutation.dependencyIDs)
            wanted.clients.formUnion(mutation.references)
            if case .id(let id) = mutation.entity.client, !(isNew && mutation.operation == .create) {
                wanted.clients.insert(id)
            }
        }
        return wanted
    }

    /// Returns the look-ups that are required only when an entry is about to be refused, which is rare.
    static func deferred(of push: PushRequest, above watermark: Int64?, excluding wanted: PushLookUps) -> PushLookUps {
        var rest = PushLookUps()
        for entry in push.entries {
            let isNew = isNew(entry, above: watermark)
            if let key = entry.idempotencyKey, isNew { rest.keys.insert(key) }
            if let id = entry.id, watermark != nil { rest.ids.insert(id) }
            guard isNew, let mutation = entry.content, mutation.operation == .create else { continue }
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

    /// Whether an entry is assumed to be new, because its number is above the watermark.
    ///
    /// If the entry is not new after all, a unique index rejects it.
    private static func isNew(_ entry: PushEntry, above watermark: Int64?) -> Bool {
        watermark.map { (entry.sequenceNumber ?? 0) > $0 } ?? false
    }
}

/// The look-ups of entities that a group writes or adds references to.
struct EntityLookUps {
    private var rows: [PushEntityRow] = []
    private var targets: Set<PushEntityRow> = []

    var isEmpty: Bool { rows.isEmpty && targets.isEmpty }

    mutating func add(_ row: PushEntityRow) { rows.append(row) }

    /// Adds an entity that other entities refer to, and that is not written itself.
    mutating func add(target row: PushEntityRow) { targets.insert(row) }

    /// The query for the latest open mutation on each written entity; nil if no entity is written.
    var open: Query? {
        if rows.isEmpty { return nil }
        // each entity is looked up once, because a push can write an entity five hundred times
        let rows = rows.count > 1 ? Array(Set(rows)) : rows
        return rows.contains(where: \.needsNumber)
            ? PushEntityRow.openOwn.query(GroupStatements.openOwn, rows)
            : PushEntityRow.open.query(GroupStatements.open, rows)
    }

    /// Whether the result marks the entities that are read only because others refer to them.
    var hasTargets: Bool { !targets.isEmpty }

    /// Returns the query that reads the entities, with or without locks.
    ///
    /// - Parameter documentBytes: the maximum bytes of documents to read. Documents beyond this limit are left out.
    func query(_ access: GroupReader.Access, documentBytes: Int) -> Query {
        var parameters = Parameters()
        let isLocking = access == .locking
        let own = rows.filter(\.needsNumber)
        Self.add(rows, hasOwn: hasTargets || !own.isEmpty, to: &parameters)
        if hasTargets { Self.add(Array(targets), hasOwn: true, to: &parameters) }
        parameters.add(documentBytes)
        if hasTargets {
            return Query(isLocking ? EntityStatements.lockRelated : EntityStatements.readRelated, parameters)
        }
        guard !own.isEmpty else {
            return Query(isLocking ? EntityStatements.lockBounded : EntityStatements.readBounded, parameters)
        }
        return Query(isLocking ? EntityStatements.lockOwnEntities : EntityStatements.readOwnEntities, parameters)
    }

    /// Adds the names of entities, grouped by the kind of name.
    private static func add(_ rows: [PushEntityRow], hasOwn: Bool, to parameters: inout Parameters) {
        let direct = rows.compactMap { row in
            row.entity.serverID.map { (row.device.lane.organization, EntityKey(type: row.entity.type, id: $0.text)) }
        }
        EntityRows.keys.add(direct, to: &parameters)
        PushEntityRow.mapped.add(rows.filter { $0.entity.serverID == nil && !$0.needsNumber }, to: &parameters)
        if hasOwn { PushEntityRow.own.add(rows.filter(\.needsNumber), to: &parameters) }
    }
}
