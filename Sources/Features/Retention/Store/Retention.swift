package import Foundation
import Postgres
package import SyncModel
package import SyncStore

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

/// The result of a step.
package struct RetentionStep: Sendable, Hashable {
    package var scanned = 0
    /// Rows that were changed or deleted, or would have been.
    package var changed = 0
    /// Rows that were left to the next run because an obstacle was in the way.
    package var left = 0
    /// Where the next step begins; nil at the end.
    package var next: RetentionPosition?
}

/// The place that retention has reached among the rows of one kind in an organization; the next page begins behind it.
package enum RetentionPosition: Sendable, Hashable {
    /// Behind a row of a user that has this age.
    case aged(Timestamp, user: UUID, id: UUID)
    case tombstone(Timestamp, EntityKey)
    /// Behind all mappings of a client id.
    case mapping(user: UUID, client: UUID)
}

/// The right to be the one working replica: every step renews it, and it is void once another replica has claimed it.
package struct RetentionLease: WorkItem, Hashable {
    let owner: UUID
    let token: Int64

    /// A run is of all organizations.
    package var organization: UUID { AuditAct.noOrganization }
}

/// A row as retention has read it.
protocol RetentionRow: Sendable {
    /// The user whose lane has to be locked.
    var user: UUID { get }
    /// The place of a page that ends with this row.
    var place: RetentionPosition { get }
    /// Whether the row was to be processed when it was read.
    var isDue: Bool { get }
}

/// A user's row by its id.
///
/// Each row contains the organization: with a plain parameter the planner may join the rows to all of the
/// organization's.
struct UserIDRow {
    let organization: UUID
    let user: UUID
    let id: UUID

    static func columns(_ id: String) -> Columns<UserIDRow> {
        Columns(.value("organization_id", \.organization), .value("user_id", \.user), .value(id, \.id))
    }
}

extension Store {
    package var retention: RetentionStore {
        RetentionStore(
            aged: tables.compactMap(AgedTable.init),
            pool: pool,
            settling: settling,
            now: now,
            failure: failure,
            requested: shared(RetentionRequests.init).signal
        )
    }
}

/// Requests for an immediate run of retention, in this process.
private final class RetentionRequests: Sendable {
    let signal = CoalescedSignal()
}
