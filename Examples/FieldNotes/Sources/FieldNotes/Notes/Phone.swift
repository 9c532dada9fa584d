import Foundation
import GRDB
import SluiceClient

/// The app on one phone: its database, and the client that keeps it in step with the gateway.
struct Phone: Sendable {
    let name: String
    let database: DatabasePool
    let sluice: SluiceClient

    /// - Parameters:
    ///   - file: the database; it belongs to one user.
    ///   - token: where the user's token is found.
    init(name: String, file: String, gateway: URL, token: TokenSource) throws {
        self.name = name
        database = try DatabasePool(path: file)
        try DatabaseMigrator.fieldNotes.migrate(database)
        sluice = try SluiceClient(
            database: database,
            gateway: gateway,
            entities: [Contact.sync, Visit.sync, Expense.sync]
        ) {
            // asked for again when the gateway no longer takes the last one
            try token.read()
        }
    }
}
