import Foundation
import GRDB
import SluiceClient
import Testing

/// Promises of the documentation that were once broken.
@Suite struct PromiseTests {
    /// A row that names the one before it.
    private struct Node: Codable, Hashable, FetchableRecord, PersistableRecord, Syncable {
        var id = UUID()
        var previous: UUID?

        static let sync = EntitySync(
            "node",
            table: "node",
            key: .uuid("id"),
            columns: [.reference("previous", to: "node")]
        )
    }

    private static let migrator: DatabaseMigrator = {
        var migrator = DatabaseMigrator()
        migrator.registerSluiceMigrations()
        migrator.registerMigration("node") { db in
            try db.execute(sql: "CREATE TABLE node (id BLOB PRIMARY KEY NOT NULL, previous BLOB REFERENCES node (id))")
        }
        return migrator
    }()

    @Test func `a chain of rows that comes last first is written however long it is`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        func phone() async throws -> TestPhone {
            try await TestPhone(gateway, organization: organization, entities: [Node.sync], migrator: Self.migrator)
        }
        let mine = try await phone()
        let nodes = (0..<1_500).map { _ in Node() }
        try await mine.write { db, client in
            for node in nodes {
                try node.insert(db)
                try client.enqueue(.create(node), in: db)
            }
            for index in (1..<nodes.count).reversed() {
                let node = Node(id: nodes[index].id, previous: nodes[index - 1].id)
                try node.update(db)
                try client.enqueue(.update(node), in: db)
            }
            try client.enqueue(.replace(nodes[0]), in: db)
        }
        #expect((await mine.sync()).failed == 0)
        let other = try await phone()
        let status = await other.sync()
        #expect(status.held == 0 && status.lastError == nil)
        #expect(try await other.pool.read { try Node.filter(Column("previous") == nil).fetchCount($0) } == 1)
        #expect(try await other.pool.read { try Node.fetchCount($0) } == nodes.count)
    }

    @Test func `what depends on a write that never left is given up at the gateway as well`() async throws {
        let (mine, theirs, made) = try await TestPhone.pair()
        var kari = made
        var copy = try #require(try await theirs.contacts().first)
        copy.phone = "2"
        try await theirs.update(copy)
        await theirs.sync()
        // more than a payload may have
        kari.name = String(repeating: "x", count: 300_000)
        let first = try #require(try await mine.update(kari))
        kari.phone = "3"
        let second = try #require(try await mine.update(kari))
        await mine.sync()
        try await mine.client.discard(first, dependents: .discard)
        #expect(try await mine.contacts().map(\.name) == ["Kari"])
        await mine.sync()
        #expect(try await mine.client.state(of: second) == .discarded)
        #expect(try await mine.contacts().map(\.phone) == ["2"])
        #expect(mine.client.currentStatus.conflicts == 0)
    }

    @Test func `a record without a mapped column is refused and erases nothing`() async throws {
        struct Name: Codable, FetchableRecord, PersistableRecord, Syncable {
            static let databaseTableName = "contact"
            static let sync = Contact.sync
            var id: UUID
            var name: String
        }
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let kari = Contact(name: "Kari", phone: "1")
        try await phone.create(kari)
        await #expect(throws: SluiceError.self) { try await phone.update(Name(id: kari.id, name: "Karin")) }
        #expect(try await phone.contacts() == [kari])
        await #expect(throws: SluiceError.self) {
            try await phone.pool.writeWithoutTransaction { db in
                _ = try phone.client.enqueue(.update(kari), in: db)
            }
        }
    }

    @Test func `a string that is composed anew is an edit`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        var rene = Contact(name: "Ren\u{E9}")
        try await phone.create(rene)
        rene.name = "Rene\u{301}"
        #expect(try await phone.update(rene) != nil)
        #expect((await phone.sync()).pending == 0)
        let other = try await TestPhone.another(of: phone)
        await other.sync()
        #expect(try await other.contacts().map { Array($0.name.unicodeScalars).count } == [5])
    }

    @Test func `a later version of the app that maps more references shows local keys`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        let details = #"{"guests":["\#(kari.id.uuidString.lowercased())"]}"#
        try await mine.create(Visit(contactID: kari.id, title: "First", details: details))
        await mine.sync()
        // the first version takes the ids in `details` for data
        let plain = EntitySync(
            "visit",
            table: "visit",
            key: .uuid("id"),
            columns: Visit.sync.columns.filter { $0.name != "details" } + [.json("details")]
        )
        let gateway = theirs.gateway
        let first = try await TestPhone(
            gateway,
            organization: mine.organization,
            user: mine.user,
            entities: [Contact.sync, plain]
        )
        await first.sync()
        let raw = try #require(try await first.visits().first?.details)
        #expect(!raw.contains(kari.id.uuidString.lowercased()), "the server's id")
        func guests(_ phone: TestPhone) async throws -> [UUID?] {
            let details = try await phone.visits().first?.details
            return try details.map { try JSON(parsing: $0)["guests"]?.array ?? [] }?.map {
                $0.string.flatMap(UUID.init(uuidString:))
            } ?? []
        }
        let second = try await TestPhone(
            gateway,
            organization: mine.organization,
            user: mine.user,
            file: first.file
        )
        let contact = try #require(try await second.contacts().first)
        #expect(try await guests(second) == [contact.id], "offline, at once")
        let status = await second.sync()
        #expect(status.held == 0 && status.lastError == nil && status.snapshotRows == nil)
        #expect(try await guests(second) == [contact.id])
    }

    @Test func `a write that took effect is shown above an earlier one that waits for a decision`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        // more than a payload may have
        var own = kari
        own.name = String(repeating: "x", count: 300_000)
        let refused = try #require(try await mine.update(own))
        own.name = "Kari N."
        try await mine.update(own)
        let status = await mine.sync()
        #expect(status.failed == 1 && status.pending == 0, "\(status)")
        #expect(try await mine.contacts().map(\.name) == ["Kari N."])
        await theirs.sync()
        #expect(try await theirs.contacts().map(\.name) == ["Kari N."])
        try await mine.client.discard(refused)
        #expect(try await mine.contacts().map(\.name) == ["Kari N."])
    }
}
