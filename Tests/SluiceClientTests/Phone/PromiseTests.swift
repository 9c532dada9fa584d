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
}
