import GRDB
import SluiceClient

extension DatabaseMigrator {
    /// Creates the library's tables first, and after them the app's, in one file, so that a change and its entry in the
    /// outbox are one transaction.
    static var fieldNotes: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerSluiceMigrations()
        migrator.registerMigration("contacts, visits, expenses") { db in
            try db.create(table: "contact") { table in
                table.primaryKey("id", .blob)
                table.column("name", .text).notNull()
                table.column("phone", .text)
            }
            // Without ON DELETE CASCADE: SQLite would delete rows without a call to the library.
            try db.create(table: "visit") { table in
                table.primaryKey("id", .blob)
                table.column("contactID", .blob).notNull().indexed().references("contact")
                table.column("title", .text).notNull()
                table.column("startsAt", .datetime).notNull()
                table.column("note", .text)
                table.column("assigneeID", .blob)
            }
            try db.create(table: "expense") { table in
                table.primaryKey("id", .blob)
                table.column("visitID", .blob).notNull().indexed().references("visit")
                table.column("text", .text).notNull()
                // text keeps every digit
                table.column("amount", .text).notNull()
            }
        }
        return migrator
    }
}
