import Foundation
import GRDB
import SluiceClient

/// The app on one phone: its database, and the client that synchronizes it with the gateway.
struct Phone: Sendable {
    let name: String
    let database: DatabasePool
    let sluice: SluiceClient
    /// The user's id, by which others assign visits.
    let user: UUID?

    /// - Parameters:
    ///   - file: the database; it belongs to one user.
    ///   - token: the source of the user's token.
    init(name: String, file: String, gateway: URL, token: TokenSource) throws {
        self.name = name
        user = try token.user()
        database = try DatabasePool(path: file)
        try DatabaseMigrator.fieldNotes.migrate(database)
        var configuration = SluiceClient.Configuration()
        // on Linux the client receives no events, so it polls each second, which a private gateway handles easily
        configuration.pullInterval = .seconds(1)
        sluice = try SluiceClient(
            database: database,
            gateway: gateway,
            entities: [Contact.sync, Visit.sync, Expense.sync],
            configuration: configuration
        ) {
            // called again when the gateway no longer accepts the last token
            try token.read()
        }
    }
}
