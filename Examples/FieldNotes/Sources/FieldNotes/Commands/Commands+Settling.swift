import Foundation
import GRDB
import SluiceClient

/// A person's decisions about writes that did not take effect.
///
/// Decisions work offline too: they are sent when there is a network.
extension Commands {
    func failed() async throws -> String {
        try await list { _ in true }
    }

    func conflicts() async throws -> String {
        try await list { $0.reason == .conflict }
    }

    func retry(_ words: inout Words) async throws {
        try await phone.sluice.retry(try await write(&words).id)
    }

    func editAndRetry(_ words: inout Words) async throws {
        let write = try await write(&words)
        switch write.entityType {
        case Contact.sync.entityType: try await editAndRetry(write, Contact.self, &words)
        case Visit.sync.entityType: try await editAndRetry(write, Visit.self, &words)
        default: try await editAndRetry(write, Expense.self, &words)
        }
    }

    /// The row still shows the failed write, so the row is corrected.
    private func editAndRetry<Record: Entry>(
        _ write: FailedWrite,
        _ type: Record.Type,
        _ words: inout Words
    ) async throws {
        guard var record = try await phone.database.read({ try write.record(type, $0) }) else {
            throw Complaint("its row is deleted: retry or discard it")
        }
        try record.set(try words.next("a field"), to: try words.remainder("the new text"))
        try await phone.sluice.retry(write.id, editing: record)
    }

    func discard(_ words: inout Words) async throws {
        let write = try await write(&words)
        let dependents: Dependents? =
            switch words.isEmpty ? "" : try words.next("all or keep") {
            case "all": .discard
            case "keep": .keep
            default: nil
            }
        try await phone.sluice.discard(write.id, dependents: dependents)
    }

    func resolve(_ words: inout Words) async throws {
        let write = try await write(&words)
        switch try words.next("mine or theirs") {
        case "mine": try await phone.sluice.resolve(write.id, .client)
        case "theirs": try await phone.sluice.resolve(write.id, .server)
        default: throw Complaint("resolve N mine|theirs")
        }
    }

    // MARK: - The list

    private func list(_ isListed: @escaping @Sendable (FailedWrite) -> Bool) async throws -> String {
        let entries = try await phone.database.read { db in
            try FailedWrite.fetchAll(db).enumerated().filter { isListed($0.element) }.map { index, write in
                "\(index + 1)  " + (try write.text(db))
            }
        }
        return entries.isEmpty ? "none" : entries.joined(separator: "\n")
    }

    /// Returns the write with the entered number in the list.
    private func write(_ words: inout Words) async throws -> FailedWrite {
        let number = try words.next("its number, as failed shows it")
        let writes = try await phone.database.read { try FailedWrite.fetchAll($0) }
        guard let index = Int(number), writes.indices.contains(index - 1) else {
            throw Complaint("there is no write number \(number): see failed")
        }
        return writes[index - 1]
    }
}

extension FailedWrite {
    /// The row that was written; nil if it is deleted.
    func record<Record: Entry>(_ type: Record.Type, _ db: Database) throws -> Record? {
        guard entityType == type.sync.entityType, let id = key.flatMap(UUID.init(uuidString:)) else { return nil }
        return try type.filter(Column("id") == id).fetchOne(db)
    }

    private static func text(ofTheirs theirs: JSON) -> String {
        theirs["deleted"] == true ? "deleted" : theirs["document"]?.text.shortened ?? "unknown"
    }

    fileprivate func text(_ db: Database) throws -> String {
        let record: (any Entry)? =
            try record(Contact.self, db) ?? record(Visit.self, db) ?? record(Expense.self, db)
        var lines = ["\(reason): \(operation) \(entityType) \(record?.summary.shortened ?? "")"]
        if let problem { lines.append("why     \(problem.detail)") }
        if reason == .conflict {
            lines.append("mine    \(payload?.text.shortened ?? operation.description)")
            lines.append("theirs  \(theirs.map(Self.text(ofTheirs:)) ?? "unknown")")
        }
        if let decisionError { lines.append("but     \(decisionError)") }
        return lines.joined(separator: "\n   ")
    }
}
