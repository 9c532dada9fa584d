import Foundation
import GRDB
import SluiceClient

/// The lower bound of the cost of an enqueue: its rows are written with values that are known in advance.
struct Floor: Sendable {
    static let tables = ["sluice_mutations", "sluice_id_mappings"]

    /// The values of a row of each table, by column.
    private let rows: [(table: String, columns: [String], values: [DatabaseValue])]

    /// Copies the rows of a write that was enqueued before.
    init(_ db: Database) throws {
        rows = try Self.tables.map { table in
            let sql = "SELECT * FROM \(table) WHERE entity_type = 'note' LIMIT 1"
            guard let row = try Row.fetchOne(db, sql: sql) else { throw Failure(description: "nothing was enqueued") }
            return (table.replacing("sluice_", with: "floor_"), Array(row.columnNames), Array(row.databaseValues))
        }
    }

    /// Writes the rows of one more write.
    func insert(_ db: Database) throws {
        let (id, key) = (UUID.timeOrdered().uuidString, UUID().uuidString)
        for row in rows {
            let names = row.columns.joined(separator: ", ")
            let places = row.columns.map { _ in "?" }.joined(separator: ", ")
            let statement = try db.cachedStatement(sql: "INSERT INTO \(row.table) (\(names)) VALUES (\(places))")
            let values = zip(row.columns, row.values).map { column, value in
                switch column {
                case "sequence_number": DatabaseValue.null
                case "id", "key", "client_id", "local_id": id.databaseValue
                case "idempotency_key": key.databaseValue
                default: value
                }
            }
            try statement.execute(arguments: StatementArguments(values))
        }
    }
}
