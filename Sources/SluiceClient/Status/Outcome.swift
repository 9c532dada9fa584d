public import Foundation
import GRDB

/// The outcome of a write. It is read from the database, and therefore survives a restart.
public enum Outcome: Sendable, Hashable {
    /// The write is in the outbox, and was never sent.
    case queued
    /// The write was sent, and has no response yet. It may have taken effect.
    case sent
    /// The gateway has stored the write durably, and runs it automatically when its turn comes.
    case accepted
    /// The gateway has the write, which waits for these mutations.
    case blocked(by: [UUID])
    /// The write took effect, once. `isVisible` is false until the pull has shown it.
    case applied(serverID: JSON?, version: Int64?, isVisible: Bool)
    /// The write did not take effect, and a person must decide: retry, edit, discard or resolve it.
    case failed(FailedWrite)
    /// The write was given up.
    case discarded

    /// Whether the state does not change any more without a person.
    public var isSettled: Bool {
        switch self {
        case .applied, .failed, .discarded: true
        default: false
        }
    }

    /// - Returns: nil for an id that is not in the outbox; ended writes are kept for
    ///   ``SluiceClient/Configuration/keep``.
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
            // nil: a decision about the failed write was made, so the write continues
            return try FailedWrite.fetch(db, id: id).map(Outcome.failed) ?? .accepted
        default: return .accepted
        }
    }
}
