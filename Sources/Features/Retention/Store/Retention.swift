package import FoundationEssentials
import Postgres
package import SyncModel
package import SyncStore

/// A kind of data that retention deletes.
///
/// An implementation reads rows a page at a time, oldest first, and deletes due rows under the locks of their lanes.
protocol Retention: Sendable {
    associatedtype Row: RetentionRow

    /// Reads the rows of a page without locks, including rows that are not due (``RetentionRow/isDue``).
    func page(after place: RetentionPosition?, limit: Int) -> Query
    func row(_ row: inout RowReader) throws -> Row
    /// Returns further users whose lanes must be locked. They must be determined before any lane is locked.
    func others(excluding rows: [Row], on connection: Connection) async throws -> Set<UUID>

    /// Deletes rows whose lanes are locked.
    ///
    /// - Returns: the number of processed rows. Rows that have changed since they were read are not processed.
    func drop(_ rows: [Row], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int
    /// The query that records the place after a page; nil if the next run begins at the oldest row again.
    func record(_ place: RetentionPosition?) -> Query?
}

extension Retention {
    func others(excluding rows: [Row], on connection: Connection) async throws -> Set<UUID> { [] }
    func record(_ place: RetentionPosition?) -> Query? { nil }
}

/// A task of retention in an organization: all rows of a kind, or the rows of one table of that kind.
package struct RetentionTask: Sendable, Hashable {
    package let kind: RetentionKind
    /// The name of an ``AgedTable``; nil for other tasks.
    @Exact package private(set) var table: String?

    package init(_ kind: RetentionKind, of table: String? = nil) {
        self.kind = kind
        self.table = table
    }
}

/// The result of a step.
package struct RetentionStep: Sendable, Hashable {
    package var scanned = 0
    /// The number of rows that were changed or deleted. In a preview, the number of rows that would be changed or
    /// deleted.
    package var changed = 0
    /// The number of due rows that were left to the next run, for example because a lane stayed locked.
    package var left = 0
    /// The place at which the next step begins; nil at the end.
    package var next: RetentionPosition?
}

/// The position that retention has reached among an organization's rows of one kind. The next page begins after it.
package enum RetentionPosition: Sendable, Hashable {
    /// After a user's row that has this age.
    case aged(Timestamp, user: UUID, id: UUID)
    case tombstone(Timestamp, EntityKey)
    /// Among expired ends of stays and grants.
    case ends
    /// After all expired ends of stays and grants.
    case expiredEnds
    /// After all mappings of a client id.
    case mapping(user: UUID, client: UUID)
}

/// The lease of the replica that runs retention. Every step renews it. It becomes invalid when another replica claims
/// it.
package struct RetentionLease: WorkItem, Hashable {
    let owner: UUID
    let token: Int64

    /// A run covers all organizations.
    package var organization: UUID { AuditedAction.noOrganization }
}

/// A row that retention has read.
protocol RetentionRow: Sendable {
    /// The user whose lane must be locked.
    var user: UUID { get }
    /// The position after a page that ends with this row.
    var place: RetentionPosition { get }
    /// Whether the row was due when it was read.
    var isDue: Bool { get }
}

/// The key of a user's row.
///
/// Each key contains the organization. If the organization were a plain parameter, the planner might join the keys to
/// all rows of the organization.
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
