import Foundation
import GRDB
import SluiceClient

/// A user's note of some 150 bytes.
struct Note: Codable, FetchableRecord, PersistableRecord, Syncable, Sendable {
    var id = UUID.timeOrdered()
    var title: String
    var text: String
    var amount: String?
    var date: Date

    static let sync = EntitySync(
        "note",
        table: "note",
        key: .uuid("id"),
        columns: [.text("title"), .text("text"), .decimal("amount"), .date("date")]
    )

    init() {
        // unique, so that the notes have the same order on all phones
        title = "Note \(id)"
        text = "Visited the customer, who asked for another offer until the end of the month."
        amount = "129.90"
        date = Date(timeIntervalSince1970: 1_795_000_000)
    }
}

/// The same record in a table that is not synchronized.
struct PlainNote: Encodable, PersistableRecord, Sendable {
    static let databaseTableName = "plain"

    private let note: Note

    init(_ note: Note) { self.note = note }

    func encode(to encoder: any Encoder) throws { try note.encode(to: encoder) }
}
