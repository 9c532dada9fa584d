import Foundation
import GRDB
import SluiceClient

/// A phone with the app, which has a real file and a client on this file.
final class TestPhone: Sendable {
    let file: URL
    let pool: DatabasePool
    let client: SluiceClient
    let user: UUID
    let organization: UUID
    /// The gateway, which is deleted with its last reference.
    let gateway: TestGateway

    init(
        _ gateway: TestGateway,
        organization: UUID,
        user: UUID = UUID(),
        entities: [EntitySync] = [Contact.sync, Visit.sync],
        file: URL? = nil,
        through url: URL? = nil,
        migrator: DatabaseMigrator = .app,
        configure: (inout SluiceClient.Configuration) -> Void = { _ in }
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "phone-\(UUID().uuidString)")
        if file == nil { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }
        self.file = file ?? folder.appending(path: "app.sqlite")
        self.user = user
        self.organization = organization
        self.gateway = gateway
        pool = try DatabasePool(path: self.file.path)
        try migrator.migrate(pool)
        let token = try await gateway.token(organization: organization, user: user)
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        configure(&configuration)
        client = try SluiceClient(
            database: pool,
            gateway: url ?? gateway.url,
            entities: entities,
            configuration: configuration
        ) { token }
    }

    /// Edits and enqueues in one transaction.
    @discardableResult
    func write<Value: Sendable>(_ body: @escaping @Sendable (Database, SluiceClient) throws -> Value) async throws
        -> Value
    {
        try await pool.write { [client] db in try body(db, client) }
    }

    @discardableResult
    func create<Record: Syncable & PersistableRecord & Sendable>(_ record: Record) async throws -> UUID? {
        try await write { db, client in
            try record.insert(db)
            return try client.enqueue(.create(record), in: db)
        }
    }

    @discardableResult
    func update<Record: Syncable & PersistableRecord & Sendable>(_ record: Record) async throws -> UUID? {
        try await write { db, client in
            try record.update(db)
            return try client.enqueue(.update(record), in: db)
        }
    }

    @discardableResult
    func delete<Record: Syncable & PersistableRecord & Sendable>(_ record: Record) async throws -> UUID? {
        try await write { db, client in
            try record.delete(db)
            return try client.enqueue(.delete(record), in: db)
        }
    }

    @discardableResult
    func sync() async -> SyncStatus { await client.syncOnce(deadline: .seconds(600)) }

    func contacts() async throws -> [Contact] {
        try await pool.read { try Contact.order(Column("name")).fetchAll($0) }
    }

    func visits() async throws -> [Visit] { try await pool.read { try Visit.order(Column("title")).fetchAll($0) } }
}

extension TestPhone {
    /// Another phone of the same user, without data.
    static func another(of phone: TestPhone) async throws -> TestPhone {
        try await TestPhone(phone.gateway, organization: phone.organization, user: phone.user)
    }

    /// The phones of two users of a new organization that both show one contact, which the first has created.
    static func pair(_ settings: String = "{}") async throws -> (mine: TestPhone, theirs: TestPhone, kari: Contact) {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization(settings)
        let mine = try await TestPhone(gateway, organization: organization)
        let theirs = try await TestPhone(gateway, organization: organization)
        let kari = Contact(name: "Kari", phone: "1")
        try await mine.create(kari)
        await mine.sync()
        await theirs.sync()
        return (mine, theirs, kari)
    }
}
