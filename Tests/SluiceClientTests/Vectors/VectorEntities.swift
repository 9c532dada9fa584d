import GRDB

@testable import SluiceClient

/// The entity map of a vector, and the app's tables for it.
enum VectorEntities {
    static func read(_ json: JSON) throws -> [EntitySync] { try json.list("entities").map(entity) }

    private static func entity(_ json: JSON) throws -> EntitySync {
        let type = try json.text("type")
        let key = try json.required("key")
        return EntitySync(
            type,
            table: json["table"]?.string ?? type,
            key: try Self.key(try key.text("kind"), try key.text("column")),
            columns: try json.list("columns").map(column),
            idSpace: try idSpace(json["id_space"]?.string ?? "mapped"),
            keys: json["keys"]?.string == "rewritten" ? .rewritten : .stable,
            endpoint: json["endpoint"]?.string
        )
    }

    private static func key(_ kind: String, _ column: String) throws -> EntityKey {
        switch kind {
        case "uuid": .uuid(column, stored: .lowercaseText)
        case "integer": .integer(column)
        case "text": .text(column)
        default: throw Vector.Failure("'\(kind)' is not a kind of key")
        }
    }

    private static func idSpace(_ name: String) throws -> EntitySync.IDSpace {
        switch name {
        case "mapped": .mapped
        case "device": .device
        case "shared": .shared
        default: throw Vector.Failure("'\(name)' is not an id space")
        }
    }

    private static func column(_ json: JSON) throws -> SyncedColumn {
        let (name, member) = (try json.text("column"), json["member"]?.string)
        switch try json.text("kind") {
        case "text": return .text(name, as: member)
        case "integer": return .integer(name, as: member)
        case "decimal": return .decimal(name, as: member)
        case "bool": return .bool(name, as: member)
        case "json": return .json(name, as: member)
        case "reference": return .reference(name, as: member, to: try json.text("to"))
        case "references": return .references(name, as: member, to: try json.text("to"))
        case let kind: throw Vector.Failure("'\(kind)' is not a kind of column")
        }
    }

    /// The app's tables, with only the columns of the map.
    static func makeTables(_ entities: [EntitySync], _ db: Database) throws {
        for entity in entities {
            let key = entity.key.kind == .integer ? "INTEGER PRIMARY KEY AUTOINCREMENT" : "TEXT PRIMARY KEY NOT NULL"
            let columns = ["\(entity.key.column) \(key)"] + entity.columns.map { "\($0.name) \(sqlType($0, entities))" }
            try db.execute(sql: "CREATE TABLE \(entity.table) (\(columns.joined(separator: ", ")))")
        }
    }

    private static func sqlType(_ column: SyncedColumn, _ entities: [EntitySync]) -> String {
        switch column.kind {
        case .integer, .bool: return "INTEGER"
        case .reference(let type):
            return entities.first { $0.entityType == type }?.key.kind == .integer ? "INTEGER" : "TEXT"
        default: return "TEXT"
        }
    }

    /// A value of a vector's row as stored in its column.
    static func databaseValue(_ json: JSON?, _ column: SyncedColumn?) throws -> DatabaseValue {
        if case .json = column?.kind, let json, !json.isNull { return json.text.databaseValue }
        switch json {
        case nil, .null: return .null
        case .string(let text): return text.databaseValue
        case .bool(let value): return value.databaseValue
        case .number where json?.int64 != nil: return (json?.int64).databaseValue
        default: throw Vector.Failure("\(json ?? .null) is not a value of a row")
        }
    }

    /// A column's value in the notation of a vector.
    static func json(_ value: DatabaseValue, _ column: SyncedColumn?) throws -> JSON {
        switch (value.storage, column?.kind) {
        case (.null, _): .null
        case (.string(let text), .json): try JSON(parsing: text)
        case (.string(let text), _): .string(text)
        case (.int64(let number), .bool): .bool(number != 0)
        case (.int64(let number), _): .integer(number)
        default: throw Vector.Failure("\(value) is not a value of a vector's row")
        }
    }
}

/// A row of any table of a vector.
struct VectorRow: Syncable {
    /// The entity whose row is being written.
    @TaskLocal static var entity = EntitySync("none", table: "none", key: .text("id"), columns: [])

    static var sync: EntitySync { entity }

    let values: [String: DatabaseValue]

    func encode(to container: inout PersistenceContainer) {
        for (name, value) in values { container[name] = value }
    }
}
