import Foundation
import GRDB
import SluiceClient
import Testing

/// The app's own constraints, triggers and cascades. A row that the table rejects blocks no other row, and a row that
/// was deleted with its parent returns with the parent.
@Suite struct HeldRowTests {
    /// A phone with the app's tables, and a script that runs after the migrations.
    private static func phone(
        _ gateway: TestGateway,
        _ organization: UUID,
        user: UUID = UUID(),
        capture: SluiceClient.Capture = .calls,
        _ sql: String
    ) async throws -> TestPhone {
        var migrator = DatabaseMigrator.app
        migrator.registerMigration("more") { try $0.execute(sql: sql) }
        return try await TestPhone(gateway, organization: organization, user: user, migrator: migrator) {
            $0.capture = capture
        }
    }

    @Test func `a failing trigger holds only its rows`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let theirs = try await TestPhone(gateway, organization: organization)
        for name in ["Kari", "bad", "Ola"] { try await theirs.create(Contact(name: name)) }
        await theirs.sync()
        let mine = try await Self.phone(
            gateway,
            organization,
            """
            CREATE TRIGGER broken BEFORE INSERT ON contact WHEN NEW.name = 'bad' BEGIN SELECT json(NEW.name); END
            """
        )
        let status = await mine.sync()
        #expect(status.held == 1 && status.lastError == nil, "\(status)")
        let reasons = try await mine.pool.read { try HeldRow.fetchAll($0) }
        #expect(try await mine.contacts().map(\.name) == ["Kari", "Ola"], "\(reasons)")
        let held = try await mine.pool.read { try HeldRow.fetchAll($0) }
        #expect(held.first?.reason.contains("malformed") == true)
        // the row is written as soon as possible
        try await mine.pool.write { try $0.execute(sql: "DROP TRIGGER broken") }
        try await theirs.create(Contact(name: "Per"))
        await theirs.sync()
        #expect((await mine.sync()).held == 0)
        #expect(try await mine.contacts().count == 4)
    }

    @Test func `a table that cannot be written holds only its own rows`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        try await mine.create(Visit(contactID: kari.id, title: "First"))
        await mine.sync()
        let other = try await Self.phone(
            theirs.gateway,
            mine.organization,
            "CREATE TRIGGER broken BEFORE INSERT ON visit BEGIN INSERT INTO nowhere VALUES (1); END"
        )
        let status = await other.sync()
        #expect(status.held == 1 && status.lastError == nil)
        #expect(try await other.contacts().map(\.name) == ["Kari"])
    }

    @Test func `a foreign key checked on commit holds its row and not the page`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let theirs = try await TestPhone(gateway, organization: organization)
        let (kari, ola) = (Contact(name: "Kari"), Contact(name: "Ola"))
        try await theirs.create(kari)
        try await theirs.create(ola)
        try await theirs.create(Visit(contactID: kari.id, title: "First"))
        try await theirs.create(Visit(contactID: ola.id, title: "Second"))
        await theirs.sync()
        let deferred = """
            DROP TABLE visit;
            CREATE TABLE visit (
                id BLOB PRIMARY KEY NOT NULL,
                contactID BLOB NOT NULL REFERENCES contact (id) DEFERRABLE INITIALLY DEFERRED,
                title TEXT NOT NULL, amount TEXT, startedAt TEXT, details TEXT, isStarred INTEGER NOT NULL DEFAULT 0);
            """
        let mine = try await Self.phone(gateway, organization, deferred)
        await mine.sync()
        #expect(try await mine.visits().map(\.title) == ["First", "Second"])
        // the contact is deleted at the server, but its visit is not
        try await theirs.write { db, client in
            try db.execute(sql: "DELETE FROM contact WHERE id = ?", arguments: [kari.id])
            try client.enqueue(.delete(kari), in: db)
        }
        try await theirs.create(Contact(name: "Per"))
        await theirs.sync()
        let status = await mine.sync()
        #expect(status.lastError == nil && status.held == 1, "\(status)")
        #expect(try await mine.contacts().map(\.name) == ["Kari", "Ola", "Per"])
        // a new phone has the visit without its contact
        let other = try await Self.phone(gateway, organization, deferred)
        let begun = await other.sync()
        #expect(begun.lastError == nil && begun.held == 1, "\(begun)")
        #expect(try await other.visits().map(\.title) == ["Second"])
    }

    @Test func `rows deleted with their parent return when its deletion is discarded`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        try await mine.create(Visit(contactID: kari.id, title: "First"))
        await mine.sync()
        await theirs.sync()
        // another user changes the contact, which conflicts with the deletion
        var copy = try #require(try await theirs.contacts().first)
        copy.phone = "2"
        try await theirs.update(copy)
        await theirs.sync()
        let deletion = try #require(try await mine.delete(kari))
        #expect(try await mine.visits() == [], "the cascade")
        #expect((await mine.sync()).conflicts == 1)
        try await mine.client.discard(deletion)
        #expect(try await mine.contacts().map(\.phone) == ["2"])
        #expect(try await mine.visits().map(\.title) == ["First"])
        await mine.sync()
        #expect(try await mine.visits().map(\.title) == ["First"])
    }

    @Test func `rows that were deleted with a parent deleted by others wait for the parent`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        try await mine.create(Visit(contactID: kari.id, title: "First"))
        await mine.sync()
        await theirs.sync()
        let copy = try #require(try await theirs.contacts().first)
        try await theirs.delete(copy)
        await theirs.sync()
        let status = await mine.sync()
        #expect(status.held == 1 && status.lastError == nil)
        #expect(try await mine.visits() == [])
        let held = try #require(try await mine.pool.read { try HeldRow.fetchAll($0) }.first)
        #expect(held.entityType == "visit")
    }

    /// Two phones of a new organization. The first holds the deletion of a contact, because its visits have a foreign key
    /// without an action.
    private static func heldDeletion(_ capture: SluiceClient.Capture) async throws -> (
        mine: TestPhone, theirs: TestPhone, kari: Contact
    ) {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let mine = try await Self.phone(
            gateway,
            organization,
            capture: capture,
            """
            DROP TABLE visit;
            CREATE TABLE visit (
                id BLOB PRIMARY KEY NOT NULL, contactID BLOB NOT NULL REFERENCES contact (id), title TEXT NOT NULL,
                amount TEXT, startedAt TEXT, details TEXT, isStarred INTEGER NOT NULL DEFAULT 0);
            """
        )
        let theirs = try await TestPhone(gateway, organization: organization)
        let kari = Contact(name: "Kari")
        try await mine.write { db, client in
            try client.insert(kari, in: db)
            try client.insert(Visit(contactID: kari.id, title: "First"), in: db)
        }
        await mine.sync()
        await theirs.sync()
        // on their phone, the foreign key also deletes the visit, but only the contact's deletion is sent
        try await theirs.delete(try #require(try await theirs.contacts().first))
        await theirs.sync()
        return (mine, theirs, kari)
    }

    @Test func `a deletion that the app's foreign keys keep is counted, and completed by the user's own deletion`()
        async throws
    {
        let (mine, theirs, kari) = try await Self.heldDeletion(.calls)
        let status = await mine.sync()
        #expect(status.held == 1 && status.heldDeletions == 1 && !status.isComplete, "\(status)")
        let held = try #require(try await mine.pool.read { try HeldRow.fetchAll($0) }.first)
        #expect(held.isDeletion && held.entityType == "contact" && held.document == ["name": "Kari"])
        await #expect(throws: SluiceError.deleted(entityType: "contact", key: kari.id.wire)) {
            var kari = kari
            kari.phone = "2"
            try await mine.update(kari)
        }
        let deletions = try await mine.write { db, client in
            try Visit.fetchAll(db).map { try client.delete($0, in: db) } + [try client.delete(kari, in: db)]
        }
        #expect(deletions.count == 2 && deletions[0] != nil && deletions[1] == nil, "\(deletions)")
        #expect(try await mine.pool.read { try HeldRow.fetchAll($0) } == [])
        let end = await mine.sync()
        #expect(end.isComplete, "\(end)")
        await theirs.sync()
        #expect(try await theirs.pool.read { try HeldRow.fetchAll($0) } == [])
    }

    @Test func `triggers complete a held deletion of a row that the app deletes`() async throws {
        let (mine, _, _) = try await Self.heldDeletion(.triggers)
        #expect((await mine.sync()).heldDeletions == 1)
        let held = try await mine.write { db, client in
            try db.execute(sql: "DELETE FROM visit; DELETE FROM contact")
            // the call first enqueues what the triggers have recorded
            try client.insert(Contact(name: "Ola"), in: db)
            return try HeldRow.fetchAll(db)
        }
        #expect(held == [])
        let end = await mine.sync()
        #expect(end.isComplete, "\(end)")
        #expect(try await mine.contacts().map(\.name) == ["Ola"])
    }

    @Test func `writes a change that the column's collation considers equal`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let theirs = try await TestPhone(gateway, organization: organization)
        var kari = Contact(name: "kari")
        try await theirs.create(kari)
        await theirs.sync()
        let mine = try await Self.phone(
            gateway,
            organization,
            """
            DROP TABLE visit; DROP TABLE contact;
            CREATE TABLE contact (id BLOB PRIMARY KEY NOT NULL, name TEXT NOT NULL COLLATE NOCASE, phone TEXT);
            CREATE TABLE visit (
                id BLOB PRIMARY KEY NOT NULL, contactID BLOB NOT NULL, title TEXT NOT NULL, amount TEXT,
                startedAt TEXT, details TEXT, isStarred INTEGER NOT NULL DEFAULT 0);
            """
        )
        await mine.sync()
        kari.name = "Kari"
        try await theirs.update(kari)
        await theirs.sync()
        await mine.sync()
        #expect(try await mine.contacts().map(\.name) == ["Kari"])
    }

    @Test func `a page that would fail on commit is written except for the failing row`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let theirs = try await TestPhone(gateway, organization: organization)
        for contact in [Contact(name: "Kari", phone: "private"), Contact(name: "Ola", phone: "work")] {
            try await theirs.create(contact)
        }
        await theirs.sync()
        let tables = [
            // a deferred key of a column that is not a reference
            """
            DROP TABLE visit; DROP TABLE contact;
            CREATE TABLE kind (name TEXT PRIMARY KEY);
            INSERT INTO kind VALUES ('work');
            CREATE TABLE contact (
                id BLOB PRIMARY KEY NOT NULL, name TEXT NOT NULL,
                phone TEXT REFERENCES kind DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE visit (
                id BLOB PRIMARY KEY NOT NULL, contactID BLOB NOT NULL, title TEXT NOT NULL, amount TEXT,
                startedAt TEXT, details TEXT, isStarred INTEGER NOT NULL DEFAULT 0);
            """,
            // a trigger that ends the transaction
            """
            CREATE TRIGGER strict BEFORE INSERT ON contact WHEN NEW.name = 'Kari'
            BEGIN SELECT RAISE(ROLLBACK, 'no Kari'); END
            """,
        ]
        for sql in tables {
            let mine = try await Self.phone(gateway, organization, sql)
            for _ in 1...2 {
                let status = await mine.sync()
                #expect(status.held == 1 && status.lastError == nil, "\(status)")
                #expect(try await mine.contacts().map(\.name) == ["Ola"])
            }
        }
    }

    @Test func `columns that SQLite set to null are restored when the deletion is discarded`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        try await gateway.register("folder", #"{"id_space":"device"}"#, in: organization)
        try await gateway.register(
            "task",
            #"{"id_space":"device","relations":{"folderId":"folder"}}"#,
            in: organization
        )
        let phone = try await TestPhone(gateway, organization: organization, entities: [Folder.sync, Job.sync])
        let deletion = try await phone.write { db, client in
            var folder = Folder(name: "Inbox")
            try client.insert(&folder, in: db)
            var job = Job(text: "a", folderID: folder.id)
            try client.insert(&job, in: db)
            return try client.delete(folder, in: db)
        }
        #expect(try await phone.pool.read { try Job.fetchAll($0) }.map(\.folderID) == [nil])
        try await phone.client.discard(try #require(deletion))
        #expect(try await phone.pool.read { try Job.fetchAll($0) }.map(\.folderID) == [1])
    }
}
