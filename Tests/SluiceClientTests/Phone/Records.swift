import Foundation
import GRDB
import SluiceClient

/// An app's tables, created by its own migrations: contacts, visits to them, and tasks in folders with numbers.
struct Contact: Codable, Hashable, FetchableRecord, PersistableRecord, Syncable {
    var id = UUID()
    var name: String
    var phone: String?

    static let sync = EntitySync(
        "contact",
        table: "contact",
        key: .uuid("id"),
        columns: [.text("name"), .text("phone")]
    )
}

struct Visit: Codable, Hashable, FetchableRecord, PersistableRecord, Syncable {
    var id = UUID()
    var contactID: UUID
    var title: String
    var amount: String?
    var startedAt: Date?
    /// JSON: `{"guests": [ID, …], "lines": [{"contact": ID, "text": …}, …]}`
    var details: String?
    /// The app's own column; it never leaves the phone.
    var isStarred = false

    static let sync = EntitySync(
        "visit",
        table: "visit",
        key: .uuid("id"),
        columns: [
            .reference("contactID", as: "contact_id", to: "contact"), .text("title"), .decimal("amount"),
            .date("startedAt", as: "started_at"),
            .json("details", references: ["/guests/*": "contact", "/lines/*/contact": "contact"]),
        ]
    )
}

struct Folder: Codable, Hashable, FetchableRecord, MutablePersistableRecord, Syncable {
    var id: Int64?
    var name: String

    static let sync = EntitySync(
        "folder",
        table: "folder",
        key: .integer("id"),
        columns: [.text("name")],
        idSpace: .device
    )

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

struct Job: Codable, Hashable, FetchableRecord, MutablePersistableRecord, Syncable {
    var id: Int64?
    var text: String
    var folderID: Int64?

    static let sync = EntitySync(
        "task",
        table: "job",
        key: .integer("id"),
        columns: [.text("text"), .reference("folderID", as: "folderId", to: "folder")],
        idSpace: .device
    )

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

extension DatabaseMigrator {
    static let app: DatabaseMigrator = {
        var migrator = DatabaseMigrator()
        migrator.registerSluiceMigrations()
        migrator.registerMigration("app") { db in
            try db.execute(
                sql: """
                    CREATE TABLE contact (id BLOB PRIMARY KEY NOT NULL, name TEXT NOT NULL, phone TEXT);
                    CREATE TABLE visit (
                        id BLOB PRIMARY KEY NOT NULL, contactID BLOB NOT NULL REFERENCES contact (id) ON DELETE CASCADE,
                        title TEXT NOT NULL, amount TEXT, startedAt TEXT, details TEXT,
                        isStarred INTEGER NOT NULL DEFAULT 0);
                    CREATE TABLE folder (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
                    CREATE TABLE job (
                        id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL,
                        folderID INTEGER REFERENCES folder (id) ON DELETE SET NULL);
                    """
            )
        }
        return migrator
    }()
}
