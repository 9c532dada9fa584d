import Foundation
import GRDB
import SluiceClient

/// Every change is made twice in one transaction: in the app's table, and in the outbox.
///
/// A change is the same with and without a network.
extension Phone {
    func add<Record: Entry>(_ record: Record, _ options: Write.Options = Write.Options()) async throws {
        try await sluice.insert(record, options: options)
    }

    /// Sends the columns that differ, and nothing if no column does.
    func update<Record: Entry>(
        _ type: Record.Type,
        called name: String,
        _ change: @escaping @Sendable (inout Record) throws -> Void
    ) async throws {
        try await database.write { [sluice] db in
            // read in the transaction, and not before: a pull may have changed the row, and an older record would undo
            // that change
            var record = try type.find(name, db)
            try change(&record)
            try sluice.update(record, in: db)
        }
    }

    func delete(_ expense: Expense) async throws {
        try await database.write { db in try delete(expense, db) }
    }

    /// Deletes a visit with its expenses.
    func delete(_ visit: Visit) async throws {
        try await database.write { db in try delete(visit, db) }
    }

    /// Deletes a contact with its visits and their expenses.
    func delete(_ contact: Contact) async throws {
        try await database.write { db in
            for visit in try Visit.filter(Column("contactID") == contact.id).fetchAll(db) { try delete(visit, db) }
            try sluice.delete(contact, in: db)
        }
    }

    private func delete(_ visit: Visit, _ db: Database) throws {
        for expense in try Expense.filter(Column("visitID") == visit.id).fetchAll(db) { try delete(expense, db) }
        try sluice.delete(visit, in: db)
    }

    private func delete(_ expense: Expense, _ db: Database) throws {
        try sluice.delete(expense, in: db)
    }
}
