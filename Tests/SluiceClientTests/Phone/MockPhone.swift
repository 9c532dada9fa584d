import Foundation
import GRDB
import SluiceTesting

@testable import SluiceClient

/// A phone whose gateway is in the memory of the test.
final class MockPhone: Sendable {
    let pool: DatabasePool
    let client: SluiceClient
    let file: String
    let gateway: MockGateway

    /// - Parameter url: the address of a test's server, in place of the gateway.
    init(
        _ gateway: MockGateway = MockGateway(),
        at url: URL? = nil,
        user: String = "kari",
        _ entities: [EntitySync] = [Contact.sync, Visit.sync],
        file: String? = nil,
        configure: (inout SluiceClient.Configuration) -> Void = { _ in },
        token: (@Sendable () async throws -> String)? = nil
    ) throws {
        let folder = FileManager.default.temporaryDirectory
        self.gateway = gateway
        self.file = file ?? folder.appending(path: "phone-\(UUID().uuidString).sqlite").path
        pool = try DatabasePool(path: self.file)
        try DatabaseMigrator.app.migrate(pool)
        var configuration = gateway.configuration
        if url != nil { configuration.transport = nil }
        configure(&configuration)
        client = try SluiceClient(
            database: pool,
            gateway: url ?? gateway.url,
            entities: entities,
            configuration: configuration,
            token: token ?? { MockGateway.token(of: user) }
        )
    }

    @discardableResult
    func insert(_ contact: Contact = Contact(name: "Kari")) async throws -> UUID? {
        try await client.insert(contact)
    }

    @discardableResult
    func sync() async -> SyncStatus { await client.syncOnce(deadline: .seconds(60)) }

    func contacts() async throws -> [Contact] {
        try await pool.read { try Contact.order(Column("name")).fetchAll($0) }
    }

    func visits() async throws -> [Visit] { try await pool.read { try Visit.order(Column("title")).fetchAll($0) } }
}

/// Waits for a condition. The limit ends tests that hang; a busy machine must not reach it.
func eventually(_ what: String, _ condition: @Sendable () async throws -> Bool) async throws {
    let deadline = ContinuousClock.now + .seconds(300)
    while ContinuousClock.now < deadline {
        if try await condition() { return }
        try await Task.sleep(for: .milliseconds(50))
    }
    throw SluiceError.invalid("within five minutes not so: \(what)")
}
