package import Postgres
import SyncModel

extension Rows {
    /// Reads every row; throws all missing users' keys together.
    ///
    /// It throws if users' keys are not in memory.
    package func readSealed<Value>(_ body: (inout RowReader) throws -> Value) throws -> [Value] {
        var lacking = LackingKeys()
        let values = try read { row in try lacking.collect { try body(&row) } }
        try lacking.check()
        return values.compactMap(\.self)
    }
}
