import Foundation
import GRDB
import SluiceClient

/// The delay of the main thread while the phone synchronizes.
///
/// The main thread opens one screen after another. Each screen starts an observation, awaits its first value, and
/// reads the status.
struct MainThread {
    private static let writes = 1_000
    private let phone: Phone

    init(_ options: Options) throws { phone = try Phone(options.gateway, token: options.token) }

    func figures() async throws -> Figures {
        // while the main thread is measured, existing entities are pulled, and these writes are pushed
        try await phone.database.write { [sluice = phone.sluice] db in
            for _ in 0..<Self.writes {
                let note = Note()
                try note.insert(db)
                try sluice.enqueue(.create(note), in: db)
            }
        }
        let (idle, _) = try await watch { try await Task.sleep(for: .seconds(3)) }
        let (busy, screens) = try await watch { try await phone.synchronize() }
        var figures = Figures()
        figures.add("main_synchronizing_seconds", busy.seconds)
        figures.add("main_screens", Double(screens))
        for (name, beats) in [("synchronizing", busy), ("idle", idle)] {
            figures.add("main_\(name)_longest_milliseconds", beats.waits.max() ?? 0)
            figures.add("main_\(name)_p99_milliseconds", beats.percentile(0.99))
        }
        return figures
    }

    /// - Returns: the delays of the main thread during the body, and the number of opened screens.
    private func watch(_ body: @escaping @Sendable () async throws -> Void) async throws -> (Heartbeat.Beats, Int) {
        let screens = Task { try await Self.openScreens(phone) }
        let heartbeat = Heartbeat()
        try await body()
        let beats = await heartbeat.stop()
        screens.cancel()
        return (beats, try await screens.value)
    }

    /// Opens a screen every 50 ms until the task is cancelled; returns the number of screens.
    @MainActor private static func openScreens(_ phone: Phone) async throws -> Int {
        var screens = 0
        while !Task.isCancelled {
            var shown: [Note]?
            let observation = ValueObservation.tracking { try Note.order(Column("title")).limit(50).fetchAll($0) }
                .start(in: phone.database, scheduling: .immediate, onError: { _ in }, onChange: { shown = $0 })
            guard shown != nil, phone.sluice.currentStatus.failed == 0 else {
                throw Failure(description: "a screen has no content: \(phone.sluice.currentStatus)")
            }
            screens += 1
            try? await Task.sleep(for: .milliseconds(50))
            observation.cancel()
        }
        return screens
    }
}
