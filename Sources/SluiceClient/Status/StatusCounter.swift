import Foundation
import GRDB

/// Updates the counts in the status shortly after a change. One update covers all changes until then, because each
/// update reads all waiting writes, and an app may enqueue a thousand writes in a second.
final class StatusCounter: Sendable {
    private static let pause = DispatchTimeInterval.milliseconds(50)
    private let database: any DatabaseWriter
    private let hub: StatusHub
    private let state = Locked(State())

    private struct State {
        /// The number of all changes so far, and the number of changes that are included in the status.
        var (changes, counted) = (0, 0)
        var isScheduled = false
    }

    init(_ database: any DatabaseWriter, _ hub: StatusHub) {
        self.database = database
        self.hub = hub
    }

    func start() -> AnyDatabaseCancellable {
        note()
        let tables = [
            "sluice_mutations", "sluice_intents", "sluice_held", "sluice_device", "sluice_others", "sluice_captured",
        ].map { Table($0) }
        return DatabaseRegionObservation(tracking: tables).start(
            in: database,
            onError: { [hub] error in hub.update { $0.lastError = "\(error)" } },
            onChange: { [self] _ in note() }
        )
    }

    /// Counts now if the status does not include all changes.
    func catchUp() {
        let state = state.withLock { $0 }
        guard state.counted < state.changes else { return }
        // the read must be reentrant, because the caller may be within a database access; an error is ignored, because
        // other code that uses the database gets the same error
        guard let counts = try? database.unsafeReentrantRead({ try StatusCounts.fetch($0) }) else { return }
        take(counts, of: state.changes)
    }

    private func note() {
        let isScheduled = state.withLock { state in
            state.changes += 1
            defer { state.isScheduled = true }
            return state.isScheduled
        }
        if isScheduled { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.pause) { [self] in
            let changes = state.withLock { state in
                state.isScheduled = false
                return state.changes
            }
            database.asyncRead { [self] result in
                if let counts = try? StatusCounts.fetch(result.get()) { take(counts, of: changes) }
            }
        }
    }

    private func take(_ counts: StatusCounts, of changes: Int) {
        state.withLock { state in
            guard changes >= state.counted else { return }
            state.counted = changes
            hub.update(counts)
        }
    }
}
