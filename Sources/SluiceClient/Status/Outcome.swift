public import Foundation
import GRDB

/// The outcome of a write. It is read from the database: it survives a restart.
public enum Outcome: Sendable, Hashable {
    /// In the outbox, and never sent.
    case queued
    /// Sent, without an answer so far. It may have taken effect.
    case sent
    /// The gateway has it, durably; it runs automatically when its turn comes.
    case accepted
    /// The gateway has it, and it waits for these, by mutation id.
    case blocked(by: [UUID])
    /// It took effect, once. `isVisible` is false until the pull has shown it.
    case applied(serverID: JSON?, version: Int64?, isVisible: Bool)
    /// It did not, and a person has to decide: retry, edit, discard or resolve it.
    case failed(FailedWrite)
    /// It was given up.
    case discarded

    /// Whether nothing more happens by itself.
    public var isSettled: Bool {
        switch self {
        case .applied, .failed, .discarded: true
        default: false
        }
    }

    /// - Returns: nil for an id that is not in the outbox; what ended is kept for ``SluiceClient/Configuration/keep``.
    static func fetch(_ db: Database, _ id: UUID) throws -> Outcome? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT status, blocked_by, result_server_id, version, is_shown FROM sluice_mutations WHERE id = ?
                """,
            arguments: [id.wire]
        )
        guard let row else { return nil }
        switch row["status"] as String {
        case "queued": return .queued
        case "sent": return .sent
        case "blocked":
            return .blocked(by: try row.json("blocked_by")?.array?.compactMap(\.string).map(UUID.init(wire:)) ?? [])
        case "succeeded":
            return .applied(
                serverID: try row.json("result_server_id"),
                version: row["version"],
                isVisible: !(row["is_shown"] as Bool)
            )
        case "discarded": return .discarded
        case "failed", "conflict", "rejected":
            // one that was decided about is on its way again
            return try FailedWrite.fetch(db, id: id).map(Outcome.failed) ?? .accepted
        default: return .accepted
        }
    }
}
