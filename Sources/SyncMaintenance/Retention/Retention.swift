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

/// A row as retention has read it.
protocol RetentionRow: Sendable {
    /// Whose lane has to be locked.
    var user: UUID { get }
    /// Where a page that ends with the row ends.
    var place: RetentionPlace { get }
    /// Whether there is something to do about it, as it was when it was read.
    var isDue: Bool { get }
}

/// Something of a user by its id. The organization stands in each row, for with a plain parameter the planner may join
/// the rows to all of the organization's.
struct UserIDRow {
    let organization: UUID
    let user: UUID
    let id: UUID

    static func columns(_ id: String) -> Columns<UserIDRow> {
        Columns(.uuid("organization_id", \.organization), .uuid("user_id", \.user), .uuid(id, \.id))
    }
}
