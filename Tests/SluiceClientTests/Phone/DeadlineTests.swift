import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// `syncOnce` returns at its deadline, regardless of what it waits for. Without that, each of these tests would hang.
@Suite struct DeadlineTests {
    /// A token request that never completes and ignores cancellation.
    private static func client(_ phone: TestPhone, _ gateway: TestGateway, _ token: Promise<String>) throws
        -> SluiceClient
    {
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        return try SluiceClient(
            database: phone.pool,
            gateway: gateway.url,
            entities: [Contact.sync, Visit.sync],
            configuration: configuration
        ) {
            try await Task { try await token.value }.value
        }
    }

    @Test func `a missing token and a sync waiting for it do not exceed the deadline`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let token = Promise<String>()
        let client = try Self.client(phone, gateway, token)
        try await phone.create(Contact(name: "Kari"))
        client.resume()
        // after the sync that `resume` has started
        let status = await client.syncOnce(deadline: .milliseconds(100))
        #expect(status.pending == 1)
        client.suspend()
        #expect((await client.syncOnce(deadline: .milliseconds(100))).pending == 1)
        token.give(.success(try await gateway.token(organization: phone.organization, user: phone.user)))
        #expect((await client.syncOnce(deadline: .seconds(600))).pending == 0)
    }

    @Test func `syncOnce does not wait for mutations after a rejected one`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization(#"{"entity_types":"registered"}"#)
        try await gateway.register("visit", "{}", in: organization)
        let phone = try await TestPhone(gateway, organization: organization)
        let kari = Contact(name: "Kari")
        try await phone.create(kari)
        await phone.sync()
        try await phone.create(Visit(contactID: kari.id, title: "First"))
        // otherwise it would take the whole deadline
        let status = await phone.client.syncOnce(deadline: .seconds(3_600))
        #expect(status.failed == 1 && status.pending == 1)
    }
}

/// Timestamps in documents (RFC 3339).
@Suite struct MomentTests {
    @Test(arguments: [
        ("2026-01-15T12:30:00Z", "2026-01-15T12:30:00.000Z"), ("2026-01-15t12:30:00.5z", "2026-01-15T12:30:00.500Z"),
        ("2026-01-15T12:30:00.123456+01:00", "2026-01-15T11:30:00.123Z"),
        ("1583-01-01T00:00:00Z", "1583-01-01T00:00:00.000Z"), ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ])
    func `a timestamp is read and written in UTC with milliseconds`(_ text: String, _ written: String) {
        #expect(Date(rfc3339: text)?.rfc3339 == written)
    }

    @Test(arguments: [
        "12:30", "2026-01-15", "2026-01-15 12:30:00", "2026-01-15T12:30:00", "2026-01-15T12:30Z",
        "1582-12-31T23:59:59Z",
        "10000-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-15T24:30:00Z", "2026-01-15T12:30:00.Z",
        "2026-01-15T12:30:00+0100", "2026-01-15T12:30:00+1x:00", "",
    ])
    func `rejects invalid timestamps`(_ text: String) { #expect(Date(rfc3339: text) == nil) }

    @Test(arguments: [
        "2026-01-15 12:30", "2026-01-15T12:30:00.123", "2026-01-15 12:30:00+01:", "2026-02-30 12:30:00.123",
    ])
    func `other formats of GRDB are left to GRDB`(_ text: String) { #expect(Date(sqlite: text) == nil) }

    @Test func `timestamps and UUIDs are read and written as by GRDB and Foundation`() {
        for _ in 0..<2_000 {
            let milliseconds = Double(Int.random(in: -12_212_553_600_000..<253_402_300_800_000))
            let date = Date(timeIntervalSince1970: milliseconds / 1_000)
            #expect(date.sqlite.databaseValue == date.databaseValue, "\(milliseconds)")
            let asGRDB = Date.fromDatabaseValue(date.databaseValue)
            #expect(Date(sqlite: date.sqlite)?.rfc3339 == asGRDB?.rfc3339, "\(milliseconds)")
            #expect(Date(rfc3339: date.rfc3339)?.rfc3339 == date.rfc3339, "\(milliseconds)")
            let uuid = UUID()
            #expect(UUID(text: uuid.uuidString) == uuid && UUID(text: uuid.wire) == uuid)
            var text = Array(uuid.uuidString)
            text[Int.random(in: 0..<36)] = ["g", "-", "0", "é", " "].randomElement() ?? "x"
            // Foundation on Linux accepts some of these as UUIDs
            let isUUID = String(text).wholeMatch(of: /[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}/) != nil
            #expect(UUID(text: String(text))?.uuidString == (isUUID ? String(text) : nil), "\(String(text))")
        }
        #expect(UUID.random().uuidString.count == 36)
    }
}
