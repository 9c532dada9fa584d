import Foundation
import GRDB
import SluiceClient

extension Commands {
    func contacts() async throws -> String {
        let text = try await phone.notebook().text
        return text.isEmpty ? "none yet" : text
    }

    /// The keys that the phone assigned, and the ids that the servers assigned.
    func ids() async throws -> String {
        let rows = try await phone.identities().map { row in
            """
            \(row.entityType) \(row.summary.shortened)
              local key \(row.key.uuidString.lowercased())
              server id \(row.serverID.map { $0.string ?? $0.text } ?? "none yet")
            """
        }
        return rows.isEmpty ? "none yet" : rows.joined(separator: "\n")
    }

    func status() async throws -> String {
        let held = try await phone.database.read { try HeldRow.fetchAll($0) }
        return ([phone.sluice.currentStatus.text] + held.map { "held       \($0.entityType) \($0.key): \($0.reason)" })
            .joined(separator: "\n")
    }
}

extension SyncStatus {
    /// A short form of the status, for the prompt.
    var short: String {
        [
            "\(phase)", Self.count(pending, "pending"), Self.count(failed, "failed"),
            Self.count(conflicts, conflicts == 1 ? "conflict" : "conflicts"),
        ].compactMap { $0 }.joined(separator: ", ")
    }

    private static func count(_ number: Int, _ what: String) -> String? { number == 0 ? nil : "\(number) \(what)" }

    var text: String {
        var lines = ["phase      \(phase)", "pending    \(pending)", "failed     \(failed)", "conflicts  \(conflicts)"]
        switch blockedBy {
        case .queue(let reason, _): lines.append("blocked    later writes wait for a \(reason)")
        case .token(let text): lines.append("blocked    the gateway accepts no token: \(text)")
        case .otherAccount: lines.append("blocked    this database belongs to another user")
        case .signedOut: lines.append("blocked    the user has signed out")
        case .erased: lines.append("blocked    the user was erased, and the data on this phone too")
        case .refused(let problem): lines.append("blocked    \(problem)")
        case nil: break
        }
        if let lastError { lines.append("error      \(lastError)") }
        if let lastPulled { lines.append("pulled     \(lastPulled.formatted(.iso8601))") }
        return lines.joined(separator: "\n")
    }
}
