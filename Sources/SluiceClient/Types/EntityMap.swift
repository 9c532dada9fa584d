import GRDB

/// The entities of a client. They are checked against each other and against the app's tables.
struct EntityMap: Sendable {
    let entities: [EntitySync]
    private let byType: [String: EntitySync]
    /// For each entity type, the columns that reference it, each with the entity to which the column belongs.
    let referrers: [String: [(entity: EntitySync, column: SyncedColumn)]]

    /// - Throws: ``SluiceError/configuration(_:)`` for types, columns or references that do not match.
    init(_ entities: [EntitySync]) throws {
        self.entities = entities
        byType = Dictionary(entities.map { ($0.entityType, $0) }) { first, _ in first }
        guard byType.count == entities.count else { throw SluiceError.configuration("two entities have the same type") }
        var referrers: [String: [(entity: EntitySync, column: SyncedColumn)]] = [:]
        for entity in entities {
            try Self.check(entity)
            for column in entity.columns {
                if let path = column.references.first(where: { !$0.isPointer }) {
                    throw SluiceError.configuration(
                        "'\(path.text)' of column \(entity.table).\(column.name) is not a path: begin it with '/'"
                    )
                }
                for type in column.referencedTypes {
                    guard byType[type] != nil else {
                        throw SluiceError.configuration(
                            "column \(entity.table).\(column.name) refers to '\(type)', which is not among the entities"
                        )
                    }
                    referrers[type, default: []].append((entity, column))
                }
            }
        }
        self.referrers = referrers
    }

    private static func check(_ entity: EntitySync) throws {
        guard entity.entityType.wholeMatch(of: /[a-z][a-z0-9_-]{0,63}/) != nil else {
            throw SluiceError.configuration(
                "'\(entity.entityType)' is not a valid entity type: it must match [a-z][a-z0-9_-]{0,63}"
            )
        }
        for names in [entity.columns.map(\.name) + [entity.key.column], entity.columns.map(\.member)] {
            if let twice = Dictionary(grouping: names, by: { $0 }).first(where: { $0.value.count > 1 }) {
                throw SluiceError.configuration("'\(twice.key)' is mapped twice for '\(entity.entityType)'")
            }
        }
        let fits =
            switch (entity.idSpace, entity.key.kind) {
            case (.mapped, .uuid), (.mapped, .text), (.device, .integer), (.shared, _): true
            default: false
            }
        guard fits else {
            throw SluiceError.configuration(
                "the key of '\(entity.entityType)' does not fit its id space: it must be a UUID or a text for a mapped"
                    + " type, and an integer for a type with device ids"
            )
        }
    }

    /// - Throws: ``SluiceError/configuration(_:)`` if the database does not have a table or a column.
    func check(_ db: Database) throws {
        for entity in entities {
            guard try db.tableExists(entity.table) else {
                throw SluiceError.configuration(
                    "'\(entity.entityType)' has the table '\(entity.table)', which does not exist"
                )
            }
            let table = try db.columns(in: entity.table)
            let columns = Set(table.map { $0.name.lowercased() })
            for name in entity.columns.map(\.name) + [entity.key.column] where !columns.contains(name.lowercased()) {
                throw SluiceError.configuration("the table '\(entity.table)' has no column '\(name)'")
            }
            try Self.check(entity, table)
            guard try db.table(entity.table, hasUniqueKey: [entity.key.column]) else {
                throw SluiceError.configuration(
                    "\(entity.table).\(entity.key.column) is the key of '\(entity.entityType)', but is not unique"
                )
            }
            if entity.idSpace == .device, try !Self.isAutoincremented(entity.table, db) {
                throw SluiceError.configuration(
                    "'\(entity.entityType)' has device ids, but the key of '\(entity.table)' is not AUTOINCREMENT: "
                        + "SQLite would reuse the number of a deleted row"
                )
            }
        }
    }

    /// - Throws: ``SluiceError/configuration(_:)`` if a column could not hold the values that a pull writes.
    private static func check(_ entity: EntitySync, _ table: [ColumnInfo]) throws {
        let kinds = Dictionary(entity.columns.map { ($0.name.lowercased(), $0.kind) }) { first, _ in first }
        let hasOneKey = table.count { $0.primaryKeyIndex > 0 } == 1
        for column in table where column.name.lowercased() != entity.key.column.lowercased() {
            guard let kind = kinds[column.name.lowercased()] else {
                // such a column is an alias of the row id, so SQLite assigns the numbers
                let isRowID = hasOneKey && column.primaryKeyIndex == 1 && column.type.uppercased() == "INTEGER"
                guard column.isNotNull, column.defaultValueSQL == nil, !isRowID else { continue }
                throw SluiceError.configuration(
                    "\(entity.table).\(column.name) is NOT NULL without a default, and is not mapped: no row of another "
                        + "device could be written. Map it, give it a default, or allow NULL"
                )
            }
            guard [.text, .decimal].contains(kind), column.storesNumbers else { continue }
            throw SluiceError.configuration(
                "\(entity.table).\(column.name) is declared as '\(column.type)', and SQLite would store a text of digits "
                    + "there as a binary number, which may change digits. Declare the column as TEXT"
                    + (kind == .decimal ? ", or map it with .real or .integer" : "")
            )
        }
    }

    private static func isAutoincremented(_ table: String, _ db: Database) throws -> Bool {
        let sql = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND lower(name) = lower(?)"
        return try String.fetchOne(db, sql: sql, arguments: [table])?.uppercased().contains("AUTOINCREMENT") ?? false
    }

    subscript(type: String) -> EntitySync? { byType[type] }

    /// Returns the entity of a type, which must be one of the client's types.
    func entity(_ type: String) throws -> EntitySync {
        guard let entity = byType[type] else {
            throw SluiceError.configuration("'\(type)' is not among the entities of this client")
        }
        return entity
    }

    /// Whether any type has local ids, so that pulls use the device's local ids.
    var hasDeviceIDs: Bool { entities.contains { $0.idSpace == .device } }
}

extension SyncedColumn {
    /// The places in the member that contain ids.
    var references: [ReferencePath] {
        switch kind {
        case .reference(let type): [ReferencePath("", to: type)]
        case .json(let paths): paths
        default: []
        }
    }

    var referencedTypes: Set<String> { Set(references.map(\.entityType)) }
}

extension ColumnInfo {
    /// Whether SQLite converts texts of digits to numbers in this column, because it has numeric, integer or real
    /// affinity (https://www.sqlite.org/datatype3.html, 3.1).
    fileprivate var storesNumbers: Bool {
        let type = type.uppercased()
        if type.contains("INT") { return true }
        if ["CHAR", "CLOB", "TEXT"].contains(where: type.contains) { return false }
        return !type.isEmpty && !type.contains("BLOB")
    }
}
