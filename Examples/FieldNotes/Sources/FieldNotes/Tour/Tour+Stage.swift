import Foundation
import GRDB
import SluiceClient

/// A result that differs from the one the tour describes.
struct TourFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

extension Tour {
    func explain(_ text: String) { Terminal.write("\n\(text)\n\n") }

    /// Types a command on a phone, and prints the phone's output.
    func type(_ phone: Phone, _ line: String) async throws {
        Terminal.write("\(phone.name)> \(line.shortened)\n")
        for line in try await Commands(phone: phone).run(line).split(separator: "\n") {
            Terminal.write("      \(line)\n")
        }
    }

    /// Waits until the phone's database meets a condition.
    ///
    /// - Throws: ``TourFailure`` after a minute.
    func waitUntil(
        _ phone: Phone,
        _ what: String,
        _ condition: @escaping @Sendable (Database) throws -> Bool
    ) async throws {
        for _ in 0..<600 {
            if try await phone.database.read(condition) { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        let (shown, status) = (try await phone.notebook().text, phone.sluice.currentStatus.text)
        throw TourFailure("Within a minute, this was not true: \(phone.name)'s phone \(what).\n\n\(shown)\n\n\(status)")
    }

    /// Waits until no write of a phone is pending.
    func waitUntilDone(_ phone: Phone) async throws {
        for _ in 0..<600 where phone.sluice.currentStatus.pending > 0 { try await Task.sleep(for: .milliseconds(100)) }
        guard phone.sluice.currentStatus.pending == 0 else {
            throw TourFailure("Within a minute, \(phone.name)'s phone still had pending writes.")
        }
    }

    /// Waits until the server has an id for every row.
    func waitForIDs(_ phone: Phone) async throws {
        try await waitUntil(phone, "has all ids") { db in try phone.identities(db).allSatisfy { $0.serverID != nil } }
    }

    func keys(of phone: Phone) async throws -> Set<UUID> { Set(try await phone.identities().map(\.key)) }
}
