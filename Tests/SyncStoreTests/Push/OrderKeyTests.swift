import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import SyncStore

/// Mutations with order keys (product rule 3).
@Suite struct OrderKeyTests {
    private static func phone(_ order: String = "dependencies") async throws -> Phone {
        let gateway = try await Gateway()
        return Phone(gateway, try await gateway.organization(#"{"order":"\#(order)"}"#))
    }

    /// An update of an unknown entity, which fails.
    private static func failing(_ phone: Phone, _ key: String?) -> Entry {
        phone.entry("update", server: #""nobody""#, extra: extra(key))
    }

    private static func extra(_ key: String?) -> [String: String] {
        key.map { ["order_key": #""\#($0)""#] } ?? [:]
    }

    private static func create(_ phone: Phone, _ key: String?) -> Entry {
        phone.entry("create", local: UUID(), extra: extra(key))
    }

    @Test func `a mutation waits for the last open mutation with its order key, within a push and later`() async throws
    {
        let phone = try await Self.phone()
        let (first, second) = (Self.failing(phone, "a"), Self.create(phone, "a"))
        let answer = try await phone.push([first, second, Self.create(phone, "b"), Self.create(phone, nil)])
        #expect(answer.results.map(\.status) == ["failed", "blocked", "succeeded", "succeeded"])
        #expect(answer.results[1].blockedBy == [first.id])
        let later = try await phone.push([Self.create(phone, "a"), Self.create(phone, "b")])
        #expect(later.results.map(\.status) == ["blocked", "succeeded"])
        let last = try #require(answer.results[1]["id"]?.uuid)
        let depends = try await phone.gateway.read(
            "SELECT depends_on[1] FROM mutations WHERE order_key = 'a' ORDER BY position DESC LIMIT 1"
        )
        #expect(try depends.read(0, 0, as: UUID.self) == last)
        _ = try await phone.discard(first.id, .discard)
        #expect(try await phone.push([Self.create(phone, "a")]).results.map(\.status) == ["succeeded"])
    }

    @Test func `under the order of the lane an order key has no effect`() async throws {
        let phone = try await Self.phone("lane")
        let answer = try await phone.push([Self.failing(phone, "a"), Self.create(phone, "a")])
        #expect(answer.results.map(\.status) == ["failed", "succeeded"])
    }

    @Test func `order keys of different users and different bytes are independent`() async throws {
        let phone = try await Self.phone()
        let other = Phone(phone.gateway, phone.organization)
        #expect(try await phone.push([Self.failing(phone, "caf\u{e9}")]).results.map(\.status) == ["failed"])
        let created = Self.create(phone, "cafe\u{301}")
        #expect(try await phone.push([created]).results.map(\.status) == ["succeeded"])
        #expect(try await phone.push([Self.create(phone, "caf\u{e9}")]).results.map(\.status) == ["blocked"])
        #expect(try await other.push([Self.create(other, "caf\u{e9}")]).results.map(\.status) == ["succeeded"])
    }

    @Test func `a repeat needs the same order key`() async throws {
        let phone = try await Self.phone()
        let entry = Self.create(phone, "a")
        #expect(try await phone.push([entry]).results.map(\.status) == ["succeeded"])
        #expect(try await phone.push([entry]).results[0]["replayed"]?.bool == true)
        for key in ["b", nil] {
            var changed = entry
            changed.extra["order_key"] = Self.extra(key)["order_key"]
            #expect(try await phone.push([changed]).results[0].code == "idempotency_key_reused")
        }
        let plain = Self.create(phone, nil)
        #expect(try await phone.push([plain]).results.map(\.status) == ["succeeded"])
        var keyed = plain
        keyed.extra["order_key"] = #""a""#
        #expect(try await phone.push([keyed]).results[0].code == "idempotency_key_reused")
        var absent = plain
        absent.extra["order_key"] = "null"
        #expect(try await phone.push([absent]).results[0]["replayed"]?.bool == true)
    }

    @Test(arguments: [#""""#, "7", "[]", #""a\u0000""#, #""\u001f""#, #""\u007f""#])
    func `rejects an order key that is empty, too long or has control characters`(_ key: String) async throws {
        let phone = try await Self.phone()
        var entry = Self.create(phone, nil)
        for key in [key, #""\#(String(repeating: "\u{e6}", count: 65))""#] {
            entry.extra["order_key"] = key
            let result = try await phone.push([entry]).results[0]
            #expect(result.status == "rejected" && result.code == "validation_failed", "\(result.text)")
            entry = Self.create(phone, nil)
        }
        entry.extra["order_key"] = #""\#(String(repeating: "\u{e6}", count: 64))""#
        #expect(try await phone.push([entry]).results[0].status == "succeeded")
    }
}
