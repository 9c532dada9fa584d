import Postgres
import SyncModel

/// What is in flight from now on.
struct FlightRow {
    let dispatch: Dispatch

    static let columns = Columns<FlightRow>(
        .lane(\.dispatch.lane),
        .uuid("id", \.dispatch.mutation.id),
        .int2("attempt_count", \.attempts)
    )

    /// The built-in store is no attempt.
    private var attempts: Int16 {
        guard case .upstream = dispatch.destination else { return dispatch.mutation.attemptCount }
        return dispatch.attempts
    }
}
