import Foundation
import GRDB

@testable import SluiceClient

/// A phone of the fleet: an app that is opened and closed, killed and restored from backups, with a wrong clock.
final class FleetPhone {
    let index: Int
    let file: URL
    let user: UUID
    private let open: (URL, FleetClock) async throws -> TestPhone
    /// The clock's offset from the machine's, in seconds.
    let clock = FleetClock()
    private(set) var app: TestPhone
    private var hasBackup = false
    /// Whether the phone is lost, so that its app is not opened any more.
    private(set) var isLost = false

    /// - Parameter open: opens the app on a file.
    init(_ index: Int, user: UUID, _ open: @escaping (URL, FleetClock) async throws -> TestPhone) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "phone-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        self.index = index
        self.user = user
        self.open = open
        file = folder.appending(path: "app.sqlite")
        app = try await open(file, clock)
    }

    /// A second phone that is set up from a copy of the first.
    ///
    /// - Parameter file: the copy.
    private init(_ index: Int, _ first: FleetPhone, file: URL) async throws {
        self.index = index
        user = first.user
        open = first.open
        self.file = file
        app = try await open(file, clock)
    }

    func twin(_ index: Int) async throws -> FleetPhone {
        let folder = FileManager.default.temporaryDirectory.appending(path: "phone-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appending(path: "app.sqlite")
        try copy(to: file)
        return try await FleetPhone(index, self, file: file)
    }

    func lose() { isLost = true }

    /// Forgets the last backup.
    func dropBackup() { hasBackup = false }

    private var backup: URL { file.deletingLastPathComponent().appending(path: "backup.sqlite") }

    /// Ends the app and opens it again.
    ///
    /// - Parameter change: changes the file of the closed app.
    func restart(_ change: () async throws -> Void = {}) async throws {
        try app.pool.close()
        try await change()
        app = try await open(file, clock)
    }

    func takeBackup() throws {
        try? FileManager.default.removeItem(at: backup)
        try copy(to: backup)
        hasBackup = true
    }

    private func copy(to file: URL) throws {
        let copy = try DatabaseQueue(path: file.path)
        try app.pool.backup(to: copy)
        try copy.close()
    }

    /// Restores the last backup.
    ///
    /// - Returns: false without a backup.
    func restoreBackup() async throws -> Bool {
        guard hasBackup else { return false }
        try await restart {
            for suffix in ["", "-wal", "-shm"] {
                try? FileManager.default.removeItem(at: URL(filePath: file.path + suffix))
            }
            try FileManager.default.copyItem(at: backup, to: file)
        }
        return true
    }

    func remove() {
        try? app.pool.close()
        try? FileManager.default.removeItem(at: file.deletingLastPathComponent())
    }

    func failedWrites() async throws -> [FailedWrite] { try await app.pool.read { try FailedWrite.fetchAll($0) } }
}

/// A phone's adjustable clock.
final class FleetClock: Sendable {
    private let ahead = Locked(0.0)

    var secondsAhead: TimeInterval { ahead.withLock { $0 } }

    var now: Date { Date().addingTimeInterval(secondsAhead) }

    func jump(_ seconds: TimeInterval) { ahead.withLock { $0 += seconds } }
}
