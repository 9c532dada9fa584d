import GRDB

extension Row {
    /// A column that holds JSON; nil for NULL.
    func json(_ column: String) throws -> JSON? { try (self[column] as String?).map { try JSON(parsing: $0) } }
}
