import Foundation
import GRDB
import SluiceClient

/// An app's database with the library, in a separate folder, which the caller of the program removes.
final class Phone: Sendable {
    let database: DatabasePool
    let sluice: SluiceClient

    init(_ gateway: URL, token: String) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "phone-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        database = try DatabasePool(path: folder.appending(path: "app.sqlite").path)
        var migrator = DatabaseMigrator()
        migrator.registerSluiceMigrations()
        migrator.registerMigration("notes") { db in
            for table in ["note", "plain"] {
                try db.execute(
                    sql: """
                        CREATE TABLE \(table) (
                            id BLOB PRIMARY KEY NOT NULL, title TEXT, text TEXT, amount TEXT, date TEXT)
                        """
                )
            }
        }
        migrator.registerMigration("floor") { db in
            // copies of the tables that an enqueue writes
            for table in Floor.tables {
                let sql = "SELECT sql FROM sqlite_schema WHERE tbl_name = ? AND sql IS NOT NULL ORDER BY type DESC"
                for statement in try String.fetchAll(db, sql: sql, arguments: [table]) {
                    try db.execute(sql: statement.replacing("sluice_", with: "floor_"))
                }
            }
        }
        try migrator.migrate(database)
        var configuration = SluiceClient.Configuration()
        configuration.pageLimit = 1_000
        sluice = try SluiceClient(
            database: database,
            gateway: gateway,
            entities: [Note.sync],
            configuration: configuration
        ) { token }
    }

    /// Pushes and pulls until nothing is left to do.
    func synchronize() async throws {
        let status = await sluice.syncOnce(deadline: .seconds(600))
        guard status.pending == 0, status.conflicts == 0, status.lastError == nil, status.blockedBy == nil else {
            throw Failure(description: "synchronization does not complete: \(status)")
        }
    }

    /// The first notes, by their titles.
    func notes(_ count: Int) async throws -> [Note] {
        let notes = try await database.read { try Note.order(Column("title")).limit(count).fetchAll($0) }
        guard notes.count == count else { throw Failure(description: "there are \(notes.count) notes, not \(count)") }
        return notes
    }

    /// Changes notes, in one transaction.
    func edit(_ notes: [Note], _ change: @escaping @Sendable (inout Note) -> Void) async throws {
        try await database.write { [sluice] db in
            for var note in notes {
                change(&note)
                try note.update(db)
                try sluice.enqueue(.update(note), in: db)
            }
        }
    }
}

/// The reason why there is no figure.
struct Failure: Error, CustomStringConvertible {
    let description: String
}
