import Foundation
import GRDB
import SluiceClient

/// The content of the app: contacts with their visits, and visits with their expenses.
struct Notebook: Hashable, Sendable {
    struct Line: Hashable, Sendable, Identifiable {
        let id: UUID
        let depth: Int
        let text: String
        /// The row's synchronization state, abbreviated for display.
        let mark: String
    }

    private(set) var lines: [Line] = []

    static func fetch(_ db: Database, _ sluice: SluiceClient) throws -> Notebook {
        let visits = Dictionary(grouping: try Visit.order(Column("title")).fetchAll(db), by: \.contactID)
        let expenses = Dictionary(grouping: try Expense.order(Column("text")).fetchAll(db), by: \.visitID)
        var notebook = Notebook()
        func add<Record: Entry>(_ record: Record, _ depth: Int) throws {
            let row = try sluice.row(of: Record.self, key: record.id, in: db)
            notebook.lines.append(Line(id: record.id, depth: depth, text: record.summary, mark: row?.mark ?? ""))
        }
        for contact in try Contact.order(Column("name")).fetchAll(db) {
            try add(contact, 0)
            for visit in visits[contact.id] ?? [] {
                try add(visit, 1)
                for expense in expenses[visit.id] ?? [] { try add(expense, 2) }
            }
        }
        return notebook
    }

    var text: String {
        lines.map { String(repeating: "  ", count: $0.depth) + $0.text.shortened + $0.mark }.joined(separator: "\n")
    }

    /// Returns the changes, one per line.
    func changes(since before: Notebook) -> [String] {
        let old = Dictionary(uniqueKeysWithValues: before.lines.map { ($0.id, $0.text) })
        let new = Dictionary(uniqueKeysWithValues: lines.map { ($0.id, $0.text) })
        let gone = before.lines.filter { new[$0.id] == nil }.map { "- \($0.text.shortened)" }
        return gone
            + lines.compactMap { line in
                guard let text = old[line.id] else { return "+ \(line.text.shortened)" }
                return text == line.text ? nil : "~ \(text.shortened) → \(line.text.shortened)"
            }
    }
}

extension SyncedRow {
    fileprivate var mark: String {
        if failed > 0 { return "  (a decision is needed)" }
        return pending > 0 ? "  (not confirmed)" : ""
    }
}

extension String {
    /// The text, shortened for one line of a terminal.
    var shortened: String { count <= 100 ? self : prefix(80) + "… (\(count) characters)" }
}
