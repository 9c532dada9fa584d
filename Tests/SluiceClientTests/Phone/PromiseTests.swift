import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// Guarantees of the documentation that an earlier version broke.
@Suite struct PromiseTests {
    /// A row that references the previous one.
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

    @Test func `a long chain of rows that arrives in reverse order is written`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        func phone() async throws -> TestPhone {
            try await TestPhone(gateway, organization: organization, entities: [Node.sync], migrator: Self.migrator)
        }
        let mine = try await phone()
        // three pages
        let nodes = (0..<1_020).map { _ in Node() }
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

    @Test func `dependents of a discarded unsent write are discarded at the gateway as well`() async throws {
        let (mine, theirs, made) = try await TestPhone.pair()
        var kari = made
        var copy = try #require(try await theirs.contacts().first)
        copy.phone = "2"
        try await theirs.update(copy)
        await theirs.sync()
        // larger than a payload may be
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

    @Test func `rejects a record without a mapped column and erases nothing`() async throws {
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

    @Test func `a change of Unicode composition is an edit`() async throws {
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

    @Test func `an app version that maps more references shows local keys`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        let details = #"{"guests":["\#(kari.id.uuidString.lowercased())"]}"#
        try await mine.create(Visit(contactID: kari.id, title: "First", details: details))
        await mine.sync()
        // the first version treats the ids in `details` as data
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
        #expect(try await guests(second) == [contact.id], "offline, immediately")
        let status = await second.sync()
        #expect(status.held == 0 && status.lastError == nil && status.snapshotRows == nil)
        #expect(try await guests(second) == [contact.id])
    }

    @Test func `a successful write hides the values of an earlier one that waits for a settlement`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        // larger than a payload may be
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

    @Test func `an edit of an entity deleted before its first pull is based on the phone's own create`()
        async throws
    {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let mine = try await TestPhone(gateway, organization: organization)
        let theirs = try await TestPhone(gateway, organization: organization)
        let kari = Contact(name: "Kari", phone: "1")
        try await mine.create(kari)
        // the create takes effect, and the pull after it fails
        try await mine.client.worker.register()
        try await mine.client.worker.push()
        var edited = kari
        edited.phone = "2"
        let edit = try #require(try await mine.update(edited))
        await theirs.sync()
        try await theirs.delete(try #require(try await theirs.contacts().first))
        await theirs.sync()
        let status = await mine.sync()
        #expect(status.conflicts == 1 && status.held == 0, "\(status)")
        #expect(try await mine.contacts() == [edited])
        try await mine.client.resolve(edit, .client)
        #expect((await mine.sync()).held == 0)
        await theirs.sync()
        #expect(try await theirs.contacts().map(\.name) == ["Kari"])
        #expect(try await theirs.contacts().map(\.phone) == ["2"])
    }

    @Test func `a dependent of a discarded rejected create fails and sends no invalid id`()
        async throws
    {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let mine = try await TestPhone(gateway, organization: organization)
        let theirs = try await TestPhone(gateway, organization: organization)
        let kari = Contact(name: String(repeating: "x", count: 300_000))
        let create = try #require(try await mine.create(kari))
        await mine.sync()
        let visit = Visit(contactID: kari.id, title: "Visit")
        let dependent = try #require(try await mine.create(visit))
        try await mine.client.discard(create, dependents: .keep)
        let status = await mine.sync()
        #expect(status.failed == 1, "\(status)")
        guard case .failed = try await mine.client.state(of: dependent) else {
            Issue.record("\(String(describing: try await mine.client.state(of: dependent)))")
            return
        }
        await theirs.sync()
        #expect(theirs.client.currentStatus.held == 0)
    }

    private static func installedPhone() async throws -> TestPhone {
        let gateway = try await TestGateway.start()
        return try await TestPhone(gateway, organization: try await gateway.makeOrganization()) {
            $0.installation = "1"
        }
    }

    private static func backUp(_ phone: TestPhone) throws -> URL {
        let backup = phone.file.deletingLastPathComponent().appending(path: "backup.sqlite")
        try phone.pool.backup(to: DatabaseQueue(path: backup.path))
        return backup
    }

    /// - Parameter isCopy: whether the backup becomes another phone, or replaces the file of the same phone.
    private static func restored(_ phone: TestPhone, from backup: URL, isCopy: Bool) async throws -> TestPhone {
        try await TestPhone(phone.gateway, organization: phone.organization, user: phone.user, file: backup) {
            $0.installation = isCopy ? "2" : "1"
        }
    }

    @Test(arguments: [false, true], [false, true])
    func `a restored phone that discards a write shows the outcome at the gateway`(
        isCopy: Bool,
        afterRegistration: Bool
    ) async throws {
        let phone = try await Self.installedPhone()
        let create = try #require(try await phone.create(Contact(name: "Kari")))
        let backup = try Self.backUp(phone)
        await phone.sync()
        let restored = try await Self.restored(phone, from: backup, isCopy: isCopy)
        if afterRegistration { try await restored.client.worker.register() }
        try await restored.client.discard(create)
        await restored.sync()
        await restored.sync()
        let state = try await restored.client.state(of: create)
        let names = try await restored.contacts().map(\.name)
        #expect((state == .discarded) == names.isEmpty, "\(String(describing: state)), and shown are \(names)")
    }

    /// In the backup, one write was rejected, and the other waits for a person's decision about it.
    @Test(arguments: [false, true])
    func `a restored phone that discards held-back writes shows the outcome at the gateway`(isCopy: Bool) async throws {
        let phone = try await Self.installedPhone()
        var kari = Contact(name: String(repeating: "x", count: 300_000))
        let create = try #require(try await phone.create(kari))
        await phone.sync()
        let dependent = try #require(try await phone.create(Visit(contactID: kari.id, title: "Visit")))
        await phone.sync()
        #expect(try await phone.client.state(of: dependent) == .queued)
        let backup = try Self.backUp(phone)
        kari.name = "Kari"
        try await phone.client.retry(create, editing: kari)
        await phone.sync()
        let restored = try await Self.restored(phone, from: backup, isCopy: isCopy)
        try await restored.client.worker.register()
        try await restored.client.discard(create, dependents: .discard)
        await restored.sync()
        await restored.sync()
        for id in [create, dependent] {
            let state = try await restored.client.state(of: id)
            #expect(state != .discarded, "\(id): the gateway has applied it")
        }
        #expect(try await restored.contacts().map(\.name) == ["Kari"])
        #expect(try await restored.visits().map(\.title) == ["Visit"])
    }

    @Test func `dependents of a held-back write are held back as well`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let kari = Contact(name: String(repeating: "x", count: 300_000))
        try await phone.create(kari)
        await phone.sync()
        var visit = Visit(contactID: kari.id, title: "Visit")
        try await phone.create(visit)
        visit.title = "Visited"
        let edit = try #require(try await phone.update(visit))
        let status = await phone.client.syncOnce(deadline: .seconds(2))
        let state = try await phone.client.state(of: edit)
        #expect(status.failed == 1, "\(String(describing: state))")
    }

    @Test func `a phone learns that another phone of its user settled a mutation`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        var own = kari
        own.phone = "3"
        let edit = try #require(try await mine.update(own))
        var other = try #require(try await theirs.contacts().first)
        other.phone = "2"
        try await theirs.update(other)
        await theirs.sync()
        #expect((await mine.sync()).conflicts == 1)
        // as an operator, or the user's other phone, would
        let token = try await mine.client.gateway.tokens.token()
        let view = GatewayView(url: mine.client.gateway.url, token: token)
        try await view.discard(edit)
        let status = await mine.sync()
        #expect(status.conflicts == 0 && status.blockedBy == nil, "\(status)")
    }

    @Test func `a failed edit still shows the columns that no later edit changed`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let kari = Contact(name: "Kari", phone: "1")
        try await phone.create(kari)
        // larger than a payload may be
        let refused = try await phone.update(
            Contact(id: kari.id, name: String(repeating: "x", count: 300_000), phone: "2")
        )
        let own = Contact(id: kari.id, name: "Kari N.", phone: "2")
        try await phone.update(own)
        let status = await phone.sync()
        #expect(status.failed == 1 && status.pending == 0, "\(status)")
        #expect(try await phone.contacts() == [own], "the phone number is not settled yet")
        try await phone.client.retry(try #require(refused), editing: own)
        #expect((await phone.sync()).failed == 0)
        let other = try await TestPhone.another(of: phone)
        await other.sync()
        #expect(try await other.contacts().map(\.phone) == ["2"])
    }

    @Test func `an app column that becomes synchronized keeps its content`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let plain = EntitySync("contact", table: "contact", key: .uuid("id"), columns: [.text("name")])
        let first = try await TestPhone(gateway, organization: organization, entities: [plain])
        let kari = Contact(name: "Kari", phone: "1")
        try await first.create(kari)
        await first.sync()
        #expect(try await first.contacts() == [kari])
        let second = try await TestPhone(gateway, organization: organization, user: first.user, file: first.file)
        #expect(try await second.contacts() == [kari])
        #expect(try await second.update(kari) != nil, "the column is sent with the next update")
        #expect((await second.sync()).pending == 0)
        #expect(try await second.contacts() == [kari])
    }

    @Test func `an observed row is updated by a pull`() async throws {
        let (mine, theirs, kari) = try await TestPhone.pair()
        let rows = ValueObservation.tracking { [client = mine.client] db in
            try client.row(of: Contact.self, key: kari.id, in: db)?.server?.document?["name"]?.string
        }.values(in: mine.pool)
        var copy = try #require(try await theirs.contacts().first)
        copy.name = "Kari N."
        try await theirs.update(copy)
        await theirs.sync()
        async let reported: Void = { for try await name in rows where name == "Kari N." { return } }()
        await mine.sync()
        try await reported
    }
}
