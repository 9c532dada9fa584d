import Foundation
import GRDB

/// Applies the response to a push, in one transaction.
struct PushAnswer {
    private let map: EntityMap
    private let db: Database
    private let results: Results
    private let now: Date

    init(_ map: EntityMap, _ db: Database, now: Date) {
        self.map = map
        self.db = db
        self.now = now
        let identities = Identities(map, db, now: now)
        results = Results(map, identities, Projection(map, identities, db), db, now: now)
    }

    /// - Returns: false for a response that violates the contract. In that case, nothing is written.
    func apply(_ answer: JSON, to batch: PushBatch) throws -> Bool {
        let entries = answer.results.compactMap(MutationResult.init)
        guard entries.map(\.id) == batch.rows.map(\.id), let accepted = answer.acceptedSequence else { return false }
        for result in entries { try results.apply(result) }
        for mapping in answer["id_mappings"]?.array ?? [] { try results.note(mapping) }
        for result in entries where result.status == .rejected { try nameByServer(result.id) }
        try Outbox.note(accepted: accepted, db)
        try db.execute(sql: "UPDATE sluice_device SET pushed_at = ?", arguments: [now.rfc3339])
        return true
    }

    /// Sends a rejected write again with a server id, if the write contained a local id that the gateway does not have
    /// for this device.
    private func nameByServer(_ id: UUID) throws {
        guard map.hasDeviceIDs, try DeviceNumbers.areOthers(db),
            try NumberReplacement(map, db).replaceUnknown(in: id)
        else { return }
        _ = try Settling(map, db, now: now).resubmitUndecided(id)
    }

    /// Assigns new numbers to writes that were rejected because another phone has used their numbers. The other phone
    /// was set up from the same backup, so the gateway treats both phones as one device.
    ///
    /// - Parameter moment: only writes that were made after this time are renumbered. The decision about older writes
    ///   is left to a person, because the gateway may have accepted them so long ago that it has deleted their
    ///   idempotency records. It would then apply them twice.
    /// - Returns: whether any write was renumbered.
    func renumber(_ answer: JSON, _ batch: PushBatch, writtenAfter moment: Date) throws -> Bool {
        let created = Dictionary(uniqueKeysWithValues: batch.rows.map { ($0.id, $0.createdAt) })
        let settling = Settling(map, db, now: now)
        var isAny = false
        for result in answer.results.compactMap(MutationResult.init) where result.isNumberUsed {
            guard let date = created[result.id].flatMap(Date.init(rfc3339:)), date > moment else { continue }
            isAny = try settling.resubmitUndecided(result.id) || isAny
        }
        return isAny
    }

    /// Stores the gateway's present states of writes that took effect before the gateway was restored. If the gateway
    /// does not have a write, but has used the write's number for another write, the write is sent again under a new
    /// number.
    ///
    /// - Returns: whether any write has to be sent again.
    func reopenLost(_ answer: JSON, writtenAfter moment: Date) throws -> Bool {
        var first: Int64?
        for result in answer.results.compactMap(MutationResult.init)
        where ![.succeeded, .rejected].contains(result.status) {
            try db.execute(
                sql: """
                    UPDATE sluice_mutations SET status = 'pending', is_outdated = 0, version = NULL, settled_at = NULL
                    WHERE id = ? AND status = 'succeeded'
                    """,
                arguments: [result.id.wire]
            )
            if db.changesCount > 0 { try results.apply(result) }
        }
        for result in answer.results.compactMap(MutationResult.init) where result.isNumberUsed {
            let sequence = try Int64.fetchOne(
                db,
                sql: """
                    UPDATE sluice_mutations
                    SET status = 'queued', is_shown = \(RowOperation.isOfRow), is_outdated = 0, version = NULL,
                        settled_at = NULL
                    WHERE id = ? AND status = 'succeeded' AND created_at > ? RETURNING sequence_number
                    """,
                arguments: [result.id.wire, moment.rfc3339]
            )
            if let sequence { first = min(first ?? sequence, sequence) }
        }
        guard let first else { return false }
        try Outbox.requestFormerIDs(db)
        try Projection(map, db, now: now).refresh(Outbox.renumberQueued(from: first, db))
        return true
    }

    /// Applies the state of a mutation, from an event or from the response to a decision.
    func apply(_ result: MutationResult) throws { try results.apply(result) }

    /// Stores an id mapping from an event.
    func note(_ mapping: JSON) throws {
        try results.note(mapping)
        try db.noteChangeOfBase()
    }

    /// Marks a write as rejected, because no push can contain the write.
    func reject(_ row: OutboxRow, _ problem: Problem) throws {
        let json: JSON = ["id": .string(row.id.wire), "status": "rejected", "error": problem.json]
        if let result = MutationResult(json) { try results.apply(result) }
    }
}

extension JSON {
    /// The results of a push. In a response, only the first result about an entity contains the entity, and later
    /// results refer to the first result. In this property, every result contains its entity.
    var results: [JSON] {
        let results = self["results"]?.array ?? []
        return results.map { result in
            guard let pointer = result["error"]?["current_at"]?.string else { return result }
            let steps = pointer.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            guard steps.count == 5, steps[1] == "results", let index = Int(steps[2]), results.indices.contains(index),
                steps[3] == "error", steps[4] == "current", let current = results[index]["error"]?["current"]
            else { return result }
            var error = result["error"]
            error?["current"] = current
            error?["current_at"] = nil
            var whole = result
            whole["error"] = error
            return whole
        }
    }

    /// The watermark in a response; nil if it is missing or so high that it leaves no further numbers.
    var acceptedSequence: Int64? {
        self["accepted_sequence"]?.int64.flatMap { (0..<(1 << 62)).contains($0) ? $0 : nil }
    }
}
