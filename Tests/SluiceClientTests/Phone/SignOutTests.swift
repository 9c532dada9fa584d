import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// After a sign-out no data of the old user is written, even by operations in progress.
@Suite struct SignOutTests {
    /// A phone that is pulling secret data of a user, a page at a time.
    private struct MidPull {
        let phone: TestPhone
        let sync: Task<SyncStatus, Never>

        init() async throws {
            let gateway = try await TestGateway.start()
            let first = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
            for number in 0..<30 { try await first.create(Contact(name: "Secret \(number)")) }
            await first.sync()
            phone = try await TestPhone(gateway, organization: first.organization, user: first.user) {
                $0.pageLimit = 1
            }
            sync = Task { [phone] in await phone.client.syncOnce(deadline: .seconds(600)) }
            while try await phone.contacts().count < 3 { await Task.yield() }
        }
    }

    private static func client(_ phone: TestPhone, _ token: @escaping @Sendable () async throws -> String) throws
        -> SluiceClient
    {
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        return try SluiceClient(
            database: phone.pool,
            gateway: phone.gateway.url,
            entities: [Contact.sync, Visit.sync],
            configuration: configuration,
            token: token
        )
    }

    @Test func `a pull in progress writes nothing after a sign-out`() async throws {
        let pull = try await MidPull()
        try await pull.phone.client.signOut(pending: .discard)
        _ = await pull.sync.value
        #expect(try await pull.phone.contacts() == [])
        await #expect(throws: SluiceError.signedOut) { try await pull.phone.create(Contact(name: "Late")) }
    }

    @Test func `another client on the file writes nothing after a sign-out`() async throws {
        let pull = try await MidPull()
        try await Self.client(pull.phone) { throw CancellationError() }.signOut(pending: .discard)
        let status = await pull.sync.value
        #expect(status.blockedBy == .signedOut)
        #expect(try await pull.phone.contacts() == [])
    }

    @Test func `a late token does not make its user the owner`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let (token, isAsked) = (Promise<String>(), Promise<Void>())
        let client = try Self.client(phone) {
            isAsked.set(.success(()))
            return try await token.value
        }
        let sync = Task { await client.syncOnce(deadline: .seconds(600)) }
        try await isAsked.value
        try await client.signOut(pending: .discard)
        token.set(.success(try await gateway.token(organization: phone.organization, user: phone.user)))
        _ = await sync.value
        #expect(try await phone.pool.read { try String.fetchOne($0, sql: "SELECT account FROM sluice_device") } == nil)
        // the next user, with a separate client
        let next = try await TestPhone(gateway, organization: phone.organization, file: phone.file)
        #expect((await next.sync()).blockedBy == nil)
    }

    @Test func `other processes with the open file write nothing for the next user`() async throws {
        let lab = try Lab()
        let file = lab.pool.path
        let widget = try Lab(file: file)
        try await lab.client.signOut(pending: .discard)
        #expect(throws: SluiceError.signedOut) { try widget.create(Contact(name: "Late")) }
        #expect(throws: SluiceError.signedOut) { try lab.create(Contact(name: "Late")) }
        #expect(try lab.strings("SELECT name FROM contact UNION ALL SELECT id FROM sluice_mutations").isEmpty)
        let next = try Lab(file: file)
        try next.create(Contact(name: "Kari"))
        #expect(throws: SluiceError.signedOut) { try widget.create(Contact(name: "Late")) }
        #expect(try lab.strings("SELECT name FROM contact") == ["Kari"])
    }
}
