public import Foundation
import GRDB

/// The state of a write. It is read from the database, so it survives a restart of the app.
public enum Outcome: Sendable, Hashable {
    /// The write is in the outbox and has never been sent.
    case queued
    /// The write was sent, but no response has arrived yet. The write may have taken effect.
    case sent
    /// The gateway has stored the write durably, and runs it automatically when its turn comes.
    case accepted
    /// The gateway has stored the write. It waits for these other mutations.
    case blocked(by: [UUID])
    /// The write took effect once. `isVisible` is false until a pull has returned the write's effect.
    case applied(serverID: JSON?, version: Int64?, isVisible: Bool)
    /// The write did not take effect. A person must decide whether to retry, edit, discard or resolve the write.
    case failed(FailedWrite)
    /// The write was discarded.
    case discarded

    /// Whether the state no longer changes without a person's decision.
    public var isSettled: Bool {
        switch self {
        case .applied, .failed, .discarded: true
        default: false
        }
    }

    /// - Returns: nil for an id that is not in the outbox. Ended writes stay in the outbox for
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
            // if there is no failed write, a decision about the write was made, so the write continues
            return try FailedWrite.fetch(db, id: id).map(Outcome.failed) ?? .accepted
        default: return .accepted
        }
    }
}
