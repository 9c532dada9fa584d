import Foundation
import GRDB

/// Applies the gateway's response to a decision.
extension Intent {
    func apply(_ result: MutationResult, _ map: EntityMap, _ db: Database, now: Date) throws {
        try delete(db)
        try PushAnswer(map, db, now: now).apply(result)
        try OtherWrite.apply(result, db)
    }

    /// A SQL condition: the decision discards the write.
    static let givesUp = """
        (action = 'discard' OR json_extract(body, '$.strategy') = '\(Winner.server.rawValue)')
        """

    private var isGivingUp: Bool { action == .discard || body["strategy"]?.string == Winner.server.rawValue }

    func apply(_ problem: Problem, _ map: EntityMap, _ db: Database, now: Date) throws {
        try delete(db)
        if try OtherWrite.fetch(mutationID, db) != nil {
            guard problem.code == "not_found" else { return try OtherWrite.refuse(mutationID, problem, db) }
            return try OtherWrite.delete(mutationID, db)
        }
        // a write without a copy and without a row in the outbox is from another device, and was settled elsewhere in
        // the meantime
        guard try isInOutbox(db) else { return }
        switch (problem.code, isGivingUp) {
        case ("not_found", true):
            // the gateway has nothing to discard, because it never accepted the write or has deleted the record of the
            // write
            let gone: JSON = ["id": .string(mutationID.wire), "status": "discarded"]
            if let result = MutationResult(gone) { try PushAnswer(map, db, now: now).apply(result) }
        case ("not_found", false):
            try db.execute(
                sql: """
                    UPDATE sluice_mutations
                    SET status = 'queued', payload = coalesce(edited_payload, payload), edited_payload = NULL
                    WHERE id = ?
                    """,
                arguments: [mutationID.wire]
            )
        default:
            // the write's state has changed, or the decision is incomplete, so the present state is requested and shown
            try db.execute(
                sql: """
                    UPDATE sluice_mutations
                    SET settle_error = ?1, edited_payload = NULL,
                        status = CASE ?2 WHEN 'status_transition_must_be_valid' THEN 'pending' ELSE status END,
                        is_shown = CASE WHEN ?2 <> 'status_transition_must_be_valid'
                            THEN \(RowOperation.isOfRow) ELSE is_shown END
                    WHERE id = ?3
                    """,
                arguments: [problem.description, problem.code, mutationID.wire]
            )
            try Settling(map, db, now: now).refresh(mutationID)
        }
    }
}
