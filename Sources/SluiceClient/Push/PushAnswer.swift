import Foundation
import GRDB

/// Applies the answer to a push, in one transaction.
struct PushAnswer {
    private let db: Database
    private let results: Results
    private let now: Date

    init(_ map: EntityMap, _ db: Database, now: Date) {
        self.db = db
        self.now = now
        let identities = Identities(map, db, now: now)
        results = Results(map, identities, ShownRows(map, identities, db), db, now: now)
    }

    /// - Returns: false for an answer that is not what the contract says; nothing is written then.
    func apply(_ answer: JSON, to batch: PushBatch) throws -> Bool {
        let entries = answer.results.compactMap(MutationResult.init)
        guard entries.map(\.id) == batch.rows.map(\.id), let accepted = answer.acceptedSequence else { return false }
        for result in entries { try results.apply(result) }
        for mapping in answer["id_mappings"]?.array ?? [] { try results.note(mapping) }
        try Outbox.note(accepted: accepted, db)
        try db.execute(sql: "UPDATE sluice_device SET pushed_at = ?", arguments: [now.rfc3339])
        return true
    }

    /// Applies one mutation's state, as an event or a settling call tells it.
    func apply(_ result: MutationResult) throws { try results.apply(result) }

    /// Applies a mapping, as an event tells it.
    func note(_ mapping: JSON) throws {
        try results.note(mapping)
        try db.noteChangeOfBase()
    }

    /// What no push can carry counts as rejected, and is shown as such.
    func reject(_ row: OutboxRow, _ problem: Problem) throws {
        let json: JSON = ["id": .string(row.id.wire), "status": "rejected", "error": problem.json]
        if let result = MutationResult(json) { try results.apply(result) }
    }
}

extension JSON {
    /// The results of a push. An answer carries an entity once: later results point to it, and get their copy here.
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

    /// The watermark that an answer tells; nil for none, and for what can be none: behind it there are numbers yet.
    var acceptedSequence: Int64? {
        self["accepted_sequence"]?.int64.flatMap { (0..<(1 << 62)).contains($0) ? $0 : nil }
    }
}
