import Postgres
import SyncModel

/// A mutation that is marked as in flight.
struct FlightRow {
    let dispatch: Dispatch

    static let columns = Columns<FlightRow>(
        .lane(\.dispatch.lane),
        .uuid("id", \.dispatch.mutation.id),
        .int2("attempt_count", \.attempts)
    )

    /// Writes to the built-in store count as no attempt.
    private var attempts: Int16 {
        guard case .upstream = dispatch.destination else { return dispatch.mutation.attemptCount }
        return dispatch.attempts
    }
}
