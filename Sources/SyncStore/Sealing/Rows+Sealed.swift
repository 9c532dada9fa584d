package import Postgres
import SyncModel

extension Rows {
    /// Reads every row; where users' keys are not in memory, it throws what all of them lack together.
    package func readSealed<Value>(_ body: (inout RowReader) throws -> Value) throws -> [Value] {
        var lacking = LackingKeys()
        let values = try read { row in try lacking.collect { try body(&row) } }
        try lacking.check()
        return values.compactMap(\.self)
    }
}
