import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// A table with organizations' sealed settings. Each organization has only a few rows in it.
struct SealedSettings {
    let columns: [SealedSetting]
    let read: Statement
    let write: Statement
    private let hasKey: Bool

    var statements: [Statement] { [read, write] }

    /// Returns nil for a table without sealed settings.
    init?(_ table: StoredTable) {
        guard case .settings(let columns) = table.sealing else { return nil }
        self.columns = columns
        let (name, key) = (table.name, table.key.first)
        hasKey = key != nil
        let names = columns.map { "\($0.name)" }
        // the primary key is selected before each column: the place of a sealed value may contain the key, and
        // ``SealedSetting/place`` reads the key from the columns directly before the value
        let list = key.map { key in "\(key)::text AS row_key, " + names.map { "\(key), \($0)" }.joined(separator: ", ")
        }
        read = Statement(
            "seal_\(name)",
            ["organization"],
            """
            SELECT \(list ?? names.joined(separator: ", ")) FROM \(name)
            WHERE organization_id = :organization AND (\(names.map { "\($0) IS NOT NULL" }.joined(separator: " OR ")))
            \(key.map { "ORDER BY \($0)" } ?? "")
            """
        )
        let values = names.map { "\($0) = :\($0)" }.joined(separator: ", ")
        write = Statement(
            "seal_write_\(name)",
            ["organization"] + (hasKey ? ["row_key"] : []) + names,
            "UPDATE \(name) SET \(values) WHERE organization_id = :organization"
                + (key.map { " AND \($0)::text = :row_key" } ?? "")
        )
    }

    /// Seals a row's values again, and returns the query that writes these values.
    func renewed(_ row: inout RowReader, of organization: UUID, _ renewal: inout Renewal) throws -> Query {
        var parameters = Parameters(of: organization)
        if hasKey { parameters.add(try row.read("row_key", as: String.self)) }
        for column in columns {
            let place = try column.place(&row)
            if column.isText {
                parameters.add(try renewal.text(row.read(column.name, as: String?.self), as: place))
            } else {
                parameters.add(PostgresJSON(try renewal.json(row.read(column.name, as: [UInt8]?.self), as: place)))
            }
        }
        return Query(write, parameters)
    }
}
