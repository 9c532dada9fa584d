import Foundation
import GRDB

/// Counts the status's numbers a moment after a change, once for any number of changes: counting reads everything that
/// waits, and an app may enqueue a thousand writes in a second.
final class StatusCounter: Sendable {
    private static let pause = DispatchTimeInterval.milliseconds(50)
    private let database: any DatabaseWriter
    private let hub: StatusHub
    private let isDue = Locked(false)

    init(_ database: any DatabaseWriter, _ hub: StatusHub) {
        self.database = database
        self.hub = hub
    }

    func start() -> AnyDatabaseCancellable {
        note()
        let tables = ["sluice_mutations", "sluice_intents", "sluice_held", "sluice_device"].map { Table($0) }
        return DatabaseRegionObservation(tracking: tables).start(
            in: database,
            onError: { [hub] error in hub.update { $0.lastError = "\(error)" } },
            onChange: { [self] _ in note() }
        )
    }

    private func note() {
        guard
            isDue.withLock({ isDue in
                defer { isDue = true }
                return !isDue
            })
        else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.pause) { [self] in
            isDue.withLock { $0 = false }
            database.asyncRead { [hub] result in
                // if the database cannot be read, its other users get the error
                guard let counts = try? StatusCounts.fetch(result.get()) else { return }
                hub.update(counts)
            }
        }
    }
}
