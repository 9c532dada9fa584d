import Foundation
import Postgres
import SyncModel

/// A mutation whose waiters are released.
struct BlockerRow {
    let job: Int32
    let lane: LaneKey
    let blocker: UUID
    let changePosition: Int64
    /// The cost of releasing them, in look-ups.
    var budget: Int64 = 0

    static let columns = Columns<BlockerRow>(
        .int4("job", \.job),
        .lane(\.lane),
        .uuid("blocker", \.blocker),
        .int8("change_position", \.changePosition),
        .int8("budget", \.budget)
    )

    /// Look-ups that one statement may cost, over all lanes: a tenth of a second.
    ///
    /// So jobs in the same commit hardly wait for a lane with much to release.
    static let wholeBudget = 16_384

    static func query(_ rows: [BlockerRow], _ now: Timestamp) -> Query {
        var rows = rows
        for index in rows.indices { rows[index].budget = Int64(wholeBudget / rows.count) }
        return columns.query(LaneStatements.unblock, rows, at: now)
    }
}
