import Foundation
import GRDB
import SluiceClient

extension Phone {
    func notebook() async throws -> Notebook {
        try await database.read { [sluice] db in try Notebook.fetch(db, sluice) }
    }

    /// The notebook now and after every change by this phone or a pull.
    func notebooks() -> AsyncValueObservation<Notebook> {
        ValueObservation.tracking { [sluice] db in try Notebook.fetch(db, sluice) }.values(in: database)
    }

    /// A row's local key, and its id at the server, if it has one yet.
    struct Identity: Sendable {
        let entityType: String
        let summary: String
        let key: UUID
        let serverID: JSON?
    }

    func identities() async throws -> [Identity] {
        try await database.read { db in try identities(db) }
    }

    func identities(_ db: Database) throws -> [Identity] {
        try Contact.fetchAll(db).map { try identity($0, db) }
            + Visit.fetchAll(db).map { try identity($0, db) }
            + Expense.fetchAll(db).map { try identity($0, db) }
    }

    private func identity<Record: Entry>(_ record: Record, _ db: Database) throws -> Identity {
        Identity(
            entityType: Record.sync.entityType,
            summary: record.summary,
            key: record.id,
            serverID: try sluice.serverID(of: Record.self, key: record.id, in: db)
        )
    }
}
