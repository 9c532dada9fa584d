import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// `syncOnce` returns at its deadline, regardless of the operation in progress. Otherwise each of these tests would
/// hang.
@Suite struct DeadlineTests {
    @Test func `a missing token and a sync waiting for it do not exceed the deadline`() async throws {
        let token = Promise<String>()
        // the token never arrives, and its task ignores cancellation
        let phone = try MockPhone(token: { try await Task { try await token.value }.value })
        try await phone.insert()
        phone.client.resume()
        // this call would wait for the sync that `resume` has started
        let status = await phone.client.syncOnce(deadline: .milliseconds(100))
        #expect(status.pending == 1)
        phone.client.suspend()
        #expect((await phone.client.syncOnce(deadline: .milliseconds(100))).pending == 1)
        token.set(.success(MockGateway.token(of: "kari")))
        #expect(await phone.sync().pending == 0)
    }

    @Test func `syncOnce does not wait for mutations after a rejected one`() async throws {
        let phone = try MockPhone()
        phone.gateway.onWrite { $0["entity_type"] == "contact" ? .reject(code: "validation_failed") : nil }
        let kari = Contact(name: "Kari")
        try await phone.insert(kari)
        await phone.sync()
        try await phone.client.insert(Visit(contactID: kari.id, title: "First"))
        // if it waited, it would take the whole deadline
        let status = await phone.client.syncOnce(deadline: .seconds(3_600))
        #expect(status.failed == 1 && status.pending == 1)
    }

    @Test func `a check of open writes that exceeds the deadline does not prevent a pull of changes`() async throws {
        let phone = try MockPhone()
        phone.gateway.holdsWrites = true
        try await phone.insert(Contact(name: "Kari"))
        await phone.client.syncOnce(deadline: .milliseconds(500))
        phone.gateway.put("contact", ["name": "Ola"])
        phone.gateway.fail(.delay(.seconds(5)), on: .push)
        for _ in 1...2 { await phone.client.syncOnce(deadline: .milliseconds(500)) }
        #expect(try await phone.contacts().map(\.name) == ["Kari", "Ola"])
    }
}

/// Times in documents (RFC 3339).
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
    func `leaves other formats of timestamps to GRDB`(_ text: String) { #expect(Date(sqlite: text) == nil) }

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
