import Foundation
import Postgres
import SyncModel
import SyncStore

/// One kind of thing that retention does away with: how it is found, a page at a time in the order of its age, and what
/// becomes of it under the locks of the lanes that it belongs to.
protocol Retention: Sendable {
    associatedtype Row: RetentionRow

    /// Reads a page without locks: what is old, and what lies among it.
    func page(after place: RetentionPlace?, limit: Int) -> Query
    func row(_ row: inout RowReader) throws -> Row
    /// Who else's lanes have to be locked, as far as is known before they are.
    func others(besides rows: [Row], on connection: Connection) async throws -> Set<UUID>

    /// Does away with rows whose lanes are locked.
    ///
    /// - Returns: how many it were: fewer where rows have changed since they were read.
    func drop(_ rows: [Row], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int
    /// What to note once a page is done; nil where the next run begins at the oldest row again.
    func note(_ place: RetentionPlace?) -> Query?
}

extension Retention {
    func others(besides rows: [Row], on connection: Connection) async throws -> Set<UUID> { [] }
    func note(_ place: RetentionPlace?) -> Query? { nil }
}
