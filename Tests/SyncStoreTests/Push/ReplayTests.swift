import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import AdministrationFeature
@testable import SyncStore

@Suite struct ReplayTests {
    @Test func `known entries of a batch receive their first answers, and new entries are applied`() async throws {
        let phone = try await Phone.new()
        let (a, b, c) = (phone.create(), phone.create(), phone.create())
        let first = try await phone.push([a, b])
        let second = try await phone.push([b, c], after: 1)
        #expect(second.results.map(\.isReplayed) == [true, false])
        #expect(second.results[0].serverID == first.results[1].serverID)
        #expect(second["accepted_sequence"]?.int64 == 3)
    }

    @Test func `any replica answers a repeat, even after a restart`() async throws {
        let phone = try await Phone.new()
        let entry = phone.create()
        let first = try await phone.push([entry])
        let other = try await Gateway(replicaOf: phone.gateway)
        let again = try await phone.push([entry], through: other)
        #expect(again.results[0].isReplayed == true)
        #expect(again.results[0].serverID == first.results[0].serverID)
        #expect(again["feed"]?.string == first["feed"]?.string)
    }

    /// A device that did not receive the answer gets it even while another transaction has locked the lane.
    @Test func `a repeat waits for no lock`() async throws {
        let phone = try await Phone.new()
        let (a, b, c) = (phone.create(), phone.create(), phone.create())
        let first = try await phone.push([a, b])
        let held = try await HeldLane(phone)
        for entries in [[a, b], [b, a], [b]] {
            let again = try await phone.push(entries)
            #expect(again.results.allSatisfy { $0.isReplayed == true }, "\(again.text)")
            #expect(again["accepted_sequence"]?.int64 == 2 && again["feed"]?.string == first["feed"]?.string)
            let mappings = Set(try #require(first["id_mappings"]?.elements).map(\.text))
            let shown = try #require(again["id_mappings"]?.elements).map(\.text)
            #expect(shown.count == entries.count && mappings.isSuperset(of: shown))
        }
        try await held.release()
        #expect(try await phone.push([b, c], after: 1).results.map(\.isReplayed) == [true, false])
    }

    /// A device without new mutations is still active.
    @Test func `a push without changes updates the last activity at most once a minute`() async throws {
        let phone = try await Phone.new()
        let entry = phone.create()
        try await phone.push([entry])
        let other = try await Gateway(replicaOf: phone.gateway)
        func seenAfter(_ seconds: Double, _ entries: [Entry], through gateway: Gateway) async throws -> Int64 {
            for clock in [phone.gateway.clock, other.clock] { clock.advance(seconds: seconds) }
            try await phone.push(entries, through: gateway)
            let seen = "SELECT extract(epoch FROM last_seen_at - created_at)::bigint FROM devices"
            return try await phone.gateway.read(seen).read(0, 0, as: Int64.self)
        }
        var minutes: Int64 = 0
        for entries in [[entry], []] {
            for gateway in [phone.gateway, other] {
                #expect(try await seenAfter(59, entries, through: gateway) == 60 * minutes)
                minutes += 1
                #expect(try await seenAfter(1, entries, through: gateway) == 60 * minutes)
            }
        }
        #expect(try await phone.push([entry])["accepted_sequence"]?.int64 == 1)
    }

    /// Refusals depend on rows that are read under the lane's lock.
    @Test func `a repeat with unknown or refused entries is evaluated in full`() async throws {
        let phone = try await Phone.new()
        let (a, b) = (phone.create(), phone.create())
        let refused = phone.entry("update", "contact", local: UUID())
        let first = try await phone.push([a, b, refused])
        #expect(first.results[2].status == "rejected")
        let again = try await phone.push([a, b, refused])
        #expect(again.results.map(\.isReplayed) == [true, true, true], "\(again.text)")
        #expect(again.results[2].code == first.results[2].code)
        var late = phone.create()
        late.number = 2
        let unknown = try await phone.push([a, late])
        #expect(unknown.results[0].isReplayed == true && unknown.results[1].status == "rejected", "\(unknown.text)")
        let gap = await #expect(throws: Problem.self) { try await phone.push([a], after: 4) }
        #expect(gap?.code == .sequenceGap)
    }

    /// A known entry receives its earlier result, even if its headers are no longer allowed.
    @Test func `a repeat is not refused after its header was removed from the list of allowed headers`() async throws {
        let gateway = try await Gateway()
        let plain = try await gateway.organization()
        func list(_ names: String) async throws -> Organization {
            _ = try await gateway.store.administration.putUpstream(
                of: plain.id,
                UpstreamUpdate(
                    body: Array(#"{"base_url":"http://upstream.invalid","allowed_headers":[\#(names)]}"#.utf8),
                    rules: UpstreamRules(canSign: false, leaseSeconds: 120)
                )
            )
            return try #require(try await gateway.store.catalog.organization(plain.id))
        }
        let before = Phone(gateway, try await list(#""x-app""#))
        let extra = ["endpoint": #""/contacts""#, "headers": #"{"X-App":"1"}"#]
        let entry = before.entry("create", "contact", local: UUID(), extra: extra)
        #expect(try await before.push([entry]).results[0].status == "pending")
        let now = Phone(gateway, try await list(""), user: before.user)
        let answer = try await now.push([entry, now.entry("create", "contact", local: UUID(), number: 2, extra: extra)])
        #expect(answer.results[0].isReplayed == true && answer.results[0].status == "pending", "\(answer.text)")
        #expect(answer.results[1].rules == ["header_not_allowed"], "\(answer.text)")
    }

    @Test func `refuses a key with different content and reveals nothing of the first content`() async throws {
        let phone = try await Phone.new()
        var entry = phone.create(payload: #"{"secret":"first"}"#)
        try await phone.push([entry])
        entry.payload = #"{"secret":"second"}"#
        let answer = try await phone.push([entry])
        #expect(answer.results[0].status == "rejected")
        #expect(answer.results[0].code == "idempotency_key_reused")
        #expect(!answer.text.contains("first"))
        #expect(answer.results[0]["server_id"]?.isNull == true)
        // the first mutation is unchanged
        entry.payload = #"{"secret":"first"}"#
        #expect(try await phone.push([entry]).results[0].isReplayed == true)
    }

    @Test(arguments: [
        #"{ "b" : [1, 2.50], "a":"\u0041" }"#, #"{"a":"A","b":[1,2.50]}"#,
    ])
    func `a different member order and white space are the same content`(_ payload: String) async throws {
        let phone = try await Phone.new()
        var entry = phone.create(payload: #"{"a":"A","b":[1,2.50]}"#)
        try await phone.push([entry])
        entry.payload = payload
        #expect(try await phone.push([entry]).results[0].isReplayed == true)
    }

    @Test(arguments: [
        "operation", "type", "payload", "base", "endpoint", "headers",
    ])
    func `every other difference counts as different content`(_ what: String) async throws {
        let phone = try await Phone.new()
        var entry = phone.create()
        try await phone.push([entry])
        switch what {
        case "operation": entry.operation = "replace"
        case "type": entry.type = "other"
        case "payload": entry.payload = #"{"title":"y"}"#
        case "base": entry.extra["base_version"] = "1"
        case "endpoint": entry.extra["endpoint"] = #""/x""#
        default: entry.extra["headers"] = #"{"accept-language":"nb"}"#
        }
        #expect(try await phone.push([entry]).results[0].code == "idempotency_key_reused")
    }

    @Test func `content stays the same if client IDs are replaced by their server IDs`() async throws {
        let phone = try await Phone.new()
        let contact = UUID()
        let create = phone.create("contact", local: contact)
        var update = phone.entry("update", "contact", local: contact, payload: #"{"x":1}"#)
        var activity = phone.create(
            "activity",
            payload: #"{"ids":["\#(contact.lowercased)"],"o":{"c":"\#(contact.uuidString)"}}"#
        )
        activity.extra["endpoint"] = #""/contacts/\#(contact.lowercased)/activities""#
        let first = try await phone.push([create, update, activity])
        let server = try #require(first.results[0].serverID)
        #expect(first.results.map(\.status) == ["succeeded", "succeeded", "succeeded"])

        update.local = nil
        update.server = #""\#(server)""#
        activity.payload = #"{"o":{"c":"\#(server)"},"ids":["\#(server.uppercased())"]}"#
        activity.extra["endpoint"] = #""/contacts/\#(server)/activities""#
        let again = try await phone.push([create, update, activity])
        #expect(again.results.map(\.isReplayed) == [true, true, true])
        // another id in the same place is different content
        activity.payload = #"{"o":{"c":"\#(UUID().lowercased)"},"ids":["\#(server)"]}"#
        #expect(try await phone.push([activity]).results[0].code == "idempotency_key_reused")
    }

    @Test func `a duplicate inside one batch runs once`() async throws {
        let phone = try await Phone.new()
        let entry = phone.create()
        var twin = entry
        let answer = try await phone.push([entry, twin])
        #expect(answer.results.map(\.status) == ["succeeded", "succeeded"])
        #expect(answer.results.map(\.isReplayed) == [false, true])
        #expect(answer.results[0].serverID == answer.results[1].serverID)
        twin.payload = #"{"other":true}"#
        twin.key = UUID()
        let third = try await phone.push([twin])
        #expect(third.results[0].code == "sequence_already_used")
        #expect(try await phone.pull().count == 1)
    }

    @Test func `a rejection is repeated under its number and evaluated again under a higher one`() async throws {
        let phone = try await Phone.new()
        var entry = phone.entry("update", local: UUID())
        let first = try await phone.push([entry])
        #expect(first.results[0].status == "rejected")
        #expect(first.results[0].isReplayed == false)
        #expect(first["accepted_sequence"]?.int64 == 1)
        let again = try await phone.push([entry])
        #expect(again.results[0].isReplayed == true)
        #expect(again.results[0]["error"]?.text == first.results[0]["error"]?.text)

        entry.operation = "create"
        #expect(try await phone.push([entry]).results[0].isReplayed == true)
        entry.number = phone.nextNumber()
        let corrected = try await phone.push([entry])
        #expect(corrected.results[0].status == "succeeded")
        #expect(try await phone.push([entry]).results[0].isReplayed == true)
    }

    @Test func `a key belongs to one user`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let other = try await gateway.organization()
        let key = UUID()
        let id = UUID()
        for phone in [Phone(gateway, organization), Phone(gateway, organization), Phone(gateway, other)] {
            var entry = phone.create()
            entry.key = key
            entry.id = id
            let answer = try await phone.push([entry])
            #expect(answer.results[0].status == "succeeded")
            #expect(answer.results[0].isReplayed == false)
        }
    }

    @Test func `refuses an ID under another key`() async throws {
        let phone = try await Phone.new()
        let first = phone.create()
        try await phone.push([first])
        var second = phone.create()
        second.id = first.id
        #expect(try await phone.push([second]).results[0].code == "id_already_used")
        var third = phone.create()
        let fourth = phone.create()
        third.id = fourth.id
        let answer = try await phone.push([third, fourth])
        #expect(answer.results.map(\.code) == [nil, "id_already_used"])
    }

    @Test func `a key from another device under a higher number is a repeat`() async throws {
        let phone = try await Phone.new()
        let entry = phone.create()
        let first = try await phone.push([entry])
        let restored = Phone(phone.gateway, phone.organization, user: phone.user)
        try await restored.push((0..<3).map { _ in restored.create() })
        var copy = entry
        copy.number = restored.nextNumber()
        let fresh = restored.create()
        let answer = try await restored.push([copy, fresh])
        #expect(answer.results.map(\.isReplayed) == [true, false])
        #expect(answer.results[0].serverID == first.results[0].serverID)
        #expect(answer["accepted_sequence"]?.int64 == 5)
    }
}

extension Phone {
    /// A phone of a new user in a new organization on a separate database.
    static func new(_ settings: String = "{}") async throws -> Phone {
        let gateway = try await Gateway()
        return Phone(gateway, try await gateway.organization(settings))
    }
}
