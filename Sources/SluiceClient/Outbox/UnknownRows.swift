import GRDB

/// Enqueues the creation of rows that were neither enqueued nor pulled before. A row is enqueued after the rows to
/// which it refers.
struct UnknownRows {
    /// The number of rows that are read at a time. A table may be larger than a phone's memory.
    private static let page = 500

    private let map: EntityMap
    private let db: Database
    private let types: Set<String>
    private let enqueue: (EntitySync, [String: DatabaseValue]) throws -> Void

    private struct Found {
        let entity: EntitySync
        let name: EntityName
        let values: [String: DatabaseValue]

        init(_ entity: EntitySync, _ row: Row) throws {
            try self.init(entity, Dictionary(row.map { ($0, $1) }) { first, _ in first })
        }

        init(_ entity: EntitySync, _ values: [String: DatabaseValue]) throws {
            self.entity = entity
            self.values = values
            name = EntityName(entity.entityType, try entity.key(of: values))
        }
    }

    /// - Parameters:
    ///   - types: the entity types of the rows to enqueue.
    ///   - enqueue: a closure that enqueues a row's creation.
    init(
        _ map: EntityMap,
        _ db: Database,
        of types: Set<String>,
        _ enqueue: @escaping (EntitySync, [String: DatabaseValue]) throws -> Void
    ) {
        self.map = map
        self.db = db
        self.types = types
        self.enqueue = enqueue
    }

    /// - Returns: the number of enqueued rows of all types.
    func enqueueAll(of entity: EntitySync) throws -> Int {
        let (table, key) = (entity.table.quotedDatabaseIdentifier, entity.key.column.quotedDatabaseIdentifier)
        var count = 0
        var last: DatabaseValue?
        while true {
            // rows without a key come first, and cause an error
            let rest = last == nil ? "" : "WHERE \(key) > ?"
            let rows = try Row.fetchAll(
                db,
                sql: "SELECT * FROM \(table) \(rest) ORDER BY \(key) LIMIT \(Self.page)",
                arguments: last.map { [$0] } ?? []
            )
            for row in rows { count += try enqueue(try Found(entity, row)) }
            guard rows.count == Self.page else { return count }
            last = rows.last?[entity.key.column]
        }
    }

    /// - Returns: the number of rows enqueued; 0 if the library has a record of the row.
    func enqueue(_ values: [String: DatabaseValue], of entity: EntitySync) throws -> Int {
        try enqueue(try Found(entity, values))
    }

    /// Enqueues the rows to which a row refers, directly or through other rows, and then the row itself.
    private func enqueue(_ row: Found) throws -> Int {
        var count = 0
        var waiting = [row]
        var names: Set = [row.name]
        while let next = waiting.last {
            if let target = try firstUnknown(in: next) {
                guard names.insert(target.name).inserted else {
                    throw SluiceError.invalid(
                        "rows of '\(target.entity.entityType)' refer to each other in a circle with \(target.name.key):"
                            + " enqueue one without the reference, and then an update with it"
                    )
                }
                waiting.append(target)
                continue
            }
            waiting.removeLast()
            guard try !isKnown(next.name) else { continue }
            try enqueue(next.entity, next.values)
            count += 1
        }
        return count
    }

    /// Returns a row that must be enqueued before this row; nil if there is no such row.
    private func firstUnknown(in row: Found) throws -> Found? {
        guard try !isKnown(row.name) else { return nil }
        var targets: [EntityName] = []
        _ = try row.entity.replacingIDs(in: row.entity.document(of: row.values, map)) { type, id in
            if types.contains(type), let key = try map.entity(type).key.text(of: id) {
                targets.append(EntityName(type, key))
            }
            return id
        }
        for target in targets where target != row.name {
            guard try !isKnown(target) else { continue }
            let entity = try map.entity(target.entityType)
            let sql = """
                SELECT * FROM \(entity.table.quotedDatabaseIdentifier)
                WHERE \(entity.key.column.quotedDatabaseIdentifier) = ?
                """
            let value = entity.key.databaseValue(of: target.key)
            if let found = try Row.fetchOne(db, sql: sql, arguments: [value]) { return try Found(entity, found) }
        }
        return nil
    }

    private func isKnown(_ name: EntityName) throws -> Bool {
        try IDMapping.of(name.entityType, key: name.key, db) != nil
    }
}
