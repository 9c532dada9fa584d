import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// Tables that could not hold pulled rows, and the limits of a request.
@Suite struct ConfigurationTests {
    private static func check(_ columns: String, _ mapped: [SyncedColumn]) throws {
        let queue = try DatabaseQueue()
        try queue.write { try $0.execute(sql: "CREATE TABLE thing (id BLOB PRIMARY KEY NOT NULL, \(columns))") }
        let map = try EntityMap([EntitySync("thing", table: "thing", key: .uuid("id"), columns: mapped)])
        try queue.read { try map.check($0) }
    }

    @Test(arguments: [
        ("title TEXT, color TEXT NOT NULL", "color is NOT NULL without a default"),
        ("title TEXT, number INTEGER NOT NULL", "number is NOT NULL without a default"),
        ("title NUMERIC", "title is declared as 'NUMERIC'"), ("title STRING", "title is declared as 'STRING'"),
    ])
    func `refuses a table that cannot hold pulled rows`(_ columns: String, _ reason: String) throws {
        let error = #expect(throws: SluiceError.self) { try Self.check(columns, [.text("title")]) }
        #expect(error?.description.contains(reason) == true)
    }

    @Test(arguments: ["NUMERIC", "DECIMAL(20, 2)", "REAL", "DOUBLE", "INTEGER"])
    func `refuses decimals in a column that rounds them`(_ type: String) throws {
        let error = #expect(throws: SluiceError.self) { try Self.check("amount \(type)", [.decimal("amount")]) }
        #expect(error?.description.contains("Declare the column as TEXT") == true)
    }

    @Test func `accepts decimals as text, defaults and NULL`() throws {
        try Self.check(
            "amount TEXT, price VARCHAR(20), anything, isStarred INTEGER NOT NULL DEFAULT 0, note TEXT",
            [.decimal("amount"), .decimal("price"), .decimal("anything")]
        )
    }

    @Test func `a decimal of eighteen digits keeps them`() throws {
        let phone = try OfflinePhone()
        let contact = Contact(name: "Kari")
        try phone.create(contact)
        let visit = Visit(contactID: contact.id, title: "First", amount: "12345678901234567.89")
        try phone.create(visit)
        #expect(try phone.push()?.rows.last?.payload?["amount"]?.text == "12345678901234567.89")
        #expect(try phone.all(Visit.self).map(\.amount) == ["12345678901234567.89"])
    }

    @Test func `a response that exceeds the total time is not awaited`() async throws {
        let server = try VectorServer { _ in
            Thread.sleep(forTimeInterval: 5)
            return .none
        }
        defer { server.stop() }
        let phone = try MockPhone(at: server.url) { $0.totalTimeout = 1 }
        let start = ContinuousClock.now
        _ = await phone.client.worker.turn()
        #expect(ContinuousClock.now - start < .seconds(4))
        #expect(phone.client.currentStatus.phase == .offline)
    }

    @Test func `the current status includes a write that was just committed`() async throws {
        let phone = try MockPhone()
        for count in 1...20 {
            try await phone.insert()
            #expect(phone.client.currentStatus.pending == count)
        }
        // the status is also available within a transaction
        let status = try await phone.pool.write { [client = phone.client] db in
            try client.insert(Contact(name: "Ola"), in: db)
            return client.currentStatus
        }
        #expect(status.pending >= 20)
    }

    @Test func `a status is complete once everything is pulled, sent and shown`() {
        var status = SyncStatus()
        #expect(!status.isComplete, "there was no exchange")
        status.phase = .idle
        status.phase = .suspended
        #expect(status.isComplete)
        for phase in [SyncStatus.Phase.offline, .waiting, .blocked, .elsewhere] {
            var failed = status
            failed.phase = phase
            failed.phase = .suspended
            #expect(!failed.isComplete)
        }
        status.snapshotRows = 2_000
        #expect(!status.isComplete)
        status.snapshotRows = nil
        status.held = 1
        #expect(!status.isComplete)
    }

    @Test func `a write without an endpoint is retried with the endpoint of the app's present version`() throws {
        let phone = try OfflinePhone()
        let contact = Contact(name: "Kari")
        let write = try phone.create(contact)
        func reject() throws {
            let problem: JSON = ["code": "validation_failed", "title": "invalid", "status": 422]
            try phone.answer(try phone.push(), [Told.result(write, "rejected", ["error": problem])])
        }
        try reject()
        let forwarded = EntitySync(
            "contact",
            table: "contact",
            key: .uuid("id"),
            columns: Contact.sync.columns,
            endpoint: "/contacts"
        )
        let next = try OfflinePhone.client(on: phone.pool, [forwarded, Visit.sync])
        try phone.pool.write { try next.retry(write, in: $0) }
        try reject()
        #expect(try phone.texts("SELECT endpoint FROM sluice_mutations") == ["/contacts"])
        try phone.pool.write { try next.retry(write, options: RetryOptions(endpoint: "/people"), in: $0) }
        #expect(try phone.push()?.rows.map(\.endpoint) == ["/people"])
        #expect(throws: SluiceError.self) {
            try phone.pool.write { try next.retry(write, options: RetryOptions(endpoint: "people"), in: $0) }
        }
    }
}
