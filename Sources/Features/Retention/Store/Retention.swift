import Foundation
import Postgres
import SyncModel
import SyncStore

/// One kind of data that retention deletes: finds rows a page at a time, oldest first, and deletes them under the
/// locks of their lanes.
protocol Retention: Sendable {
    associatedtype Row: RetentionRow

    /// Reads a page without locks: old rows, and those that lie among them.
    func page(after place: RetentionPosition?, limit: Int) -> Query
    func row(_ row: inout RowReader) throws -> Row
    /// Further users whose lanes have to be locked, as far as known before locking.
    func others(excluding rows: [Row], on connection: Connection) async throws -> Set<UUID>

    /// Deletes rows whose lanes are locked.
    ///
    /// - Returns: the number of rows: fewer where rows have changed since they were read.
    func drop(_ rows: [Row], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int
    /// The query that records the place after a page; nil if the next run begins at the oldest row again.
    func record(_ place: RetentionPosition?) -> Query?
}

extension Retention {
    func others(excluding rows: [Row], on connection: Connection) async throws -> Set<UUID> { [] }
    func record(_ place: RetentionPosition?) -> Query? { nil }
}
