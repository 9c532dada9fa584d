import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore
@testable import TransferFeature

/// Ids with different bytes identify different entities on every path into the store.
@Suite struct TextBytesTests {
    /// Pairs of ids that compare equal as Swift strings.
    private static let pairs = [
        TextPair(left: "K1", right: "\u{212a}1"), TextPair(left: "caf\u{e9}", right: "cafe\u{301}"),
    ]

    private static func json(_ text: String) -> String {
        var writer = JSONWriter()
        writer.string(text)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Returns texts that compare by bytes, because Swift strings compare by canonical equivalence.
    private static func exact(_ texts: [String?]) -> [ByteExactString] { texts.map { ByteExactString($0 ?? "-") } }

    private static func title(_ title: String) -> String { #"{"title":"\#(title)"}"# }

    private func titles(_ phone: Phone) async throws -> [String?] {
        try await phone.pull().map { $0["document"]?["title"]?.string }
    }

    @Test(arguments: pairs)
    func `a user cannot take over a private entity by an equivalent id`(_ pair: TextPair) async throws {
        let gateway = try await Gateway(committers: 1)
        let organization = try await gateway.organization()
        _ = try await gateway.store.administration.putEntityType(
            "task",
            in: organization.id,
            EntityTypeUpdate(body: Array(#"{"visibility":"user"}"#.utf8))
        )
        let (victim, attacker) = (Phone(gateway, organization), Phone(gateway, organization))
        let source = EventSource(gateway, organization)
        func owned(_ phone: Phone) -> [String: String] { ["owner": #""\#(phone.user.lowercased)""#] }
        let (his, own) = (Self.json(pair.left), Self.json(pair.right))
        let results = try await source.results([
            EventSource.event("v", his, version: 1, Self.title("victim"), extra: owned(victim)),
            EventSource.event("a", own, version: 1, Self.title("attacker"), extra: owned(attacker)),
        ])
        #expect(results == ["applied", "applied"])
        for order in [[(own, true), (his, false)], [(his, false), (own, true)]] {
            let answer = try await attacker.push(
                order.map { attacker.entry("update", server: $0.0, payload: Self.title("mine")) }
            )
            for ((_, isOwn), result) in zip(order, answer.results) {
                #expect((result.status == "succeeded") == isOwn, "\(result.text)")
            }
        }
        #expect(try await titles(victim) == ["victim"])
        #expect(try await titles(attacker) == ["mine"])
    }

    @Test(arguments: pairs)
    func `keeps entities with equivalent ids apart in a group of several users`(_ pair: TextPair) async throws {
        let gateway = try await Gateway(committers: 1)
        let organization = try await gateway.organization()
        let phones = (0..<4).map { _ in Phone(gateway, organization) }
        let source = EventSource(gateway, organization)
        let ids = [Self.json(pair.left), Self.json(pair.right)]
        let events = ids.enumerated().map { EventSource.event("\($0)", $1, version: 1, #"{"n":0}"#) }
        #expect(try await source.results(events) == ["applied", "applied"])
        let plug = Phone(gateway, organization)
        try await plug.push([plug.create(payload: #"{"title":"plug"}"#)])
        let held = try await HeldLane(plug)
        let plugged = Task { _ = try await plug.push([plug.create(payload: #"{"title":"plug"}"#)]) }
        try await gateway.waitForLocks(1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, phone) in phones.enumerated() {
                let entry = phone.entry(
                    "update",
                    server: ids[index % 2],
                    payload: #"{"u\#(index)":1}"#,
                    extra: index < 2 ? ["base_version": "1"] : [:]
                )
                group.addTask {
                    let result = try await phone.push([entry]).results[0]
                    if index < 2 { #expect(["succeeded", "conflict"].contains(result.status), "\(result.text)") }
                }
            }
            try await waitUntil("four are queued", every: .milliseconds(1)) { gateway.store.pushes.waiting >= 4 }
            try await held.release()
            try await plugged.value
            try await group.waitForAll()
        }
        let changes = try await phones[0].pull().filter { $0["document"]?["n"] != nil }
        #expect(changes.count == 2)
        for (index, id) in ids.enumerated() {
            let change = try #require(changes.first { Self.exact([$0["id"]?.text]) == Self.exact([id]) })
            let others = ["u\(1 - index)", "u\(3 - index)"]
            let names = (change["document"]?.members.map { Array($0) } ?? []).map { $0.name.string }
            #expect(names.contains("u\(index + 2)") && !names.contains(where: others.contains), "\(change.text)")
        }
    }

    @Test func `applies each event of a batch to its own entity`() async throws {
        let seed = Seed()
        var random = seed.generator
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let source = EventSource(gateway, phone.organization)
        var events: [String] = []
        var ids: [String] = []
        for index in 0..<60 {
            let pair = index < TextPair.all.count ? TextPair.all[index] : TextPair.random(using: &random)
            let suffixes = ["\(index) " + pair.left, "\(index) " + pair.right]
            for id in suffixes {
                let name = String(Self.json(id).dropFirst().dropLast())
                events.append(EventSource.event(name, Self.json(id), version: 1, #"{"id":\#(Self.json(id))}"#))
                ids.append(id)
            }
        }
        let results = try await source.results(events)
        #expect(results.allSatisfy { $0 == "applied" }, "\(seed)")
        #expect(try await source.results(events).allSatisfy { $0 == "duplicate" }, "\(seed)")
        let changes = try await phone.pull()
        #expect(changes.count == ids.count, "\(seed)")
        for (change, id) in zip(changes, ids) {
            #expect(change["id"]?.string.map { Array($0.utf8) } == Array(id.utf8), "\(seed)")
            #expect(change["document"]?["id"]?.string.map { Array($0.utf8) } == Array(id.utf8), "\(seed)")
        }
    }

    @Test func `applies two events with equivalent ids to one entity`() async throws {
        let gateway = try await Gateway()
        let source = EventSource(gateway, try await gateway.organization())
        for (number, pair) in TextPair.all.enumerated() {
            let names = [pair.left, pair.right].map { "\(number) " + $0 }.map {
                String(Self.json($0).dropFirst().dropLast())
            }
            let events = names.enumerated().map { EventSource.event($1, "\(number)", version: Int64($0 + 1)) }
            #expect(try await source.results(events) == ["applied", "applied"], "\(pair)")
            // the same holds for events in separate batches
            let others = names.enumerated().map { EventSource.event("x" + $1, "\(number)", version: Int64($0 + 3)) }
            for event in others { #expect(try await source.results([event]) == ["applied"], "\(pair)") }
        }
    }

    @Test func `imports two entities with equivalent ids`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let lines = Self.pairs.flatMap { [$0.left, $0.right] }
            .map { #"{"entity_type":"task","id":\#(Self.json($0)),"document":{"title":\#(Self.json($0))}}"# }
        var refusals = 0
        var work = EntityImport(
            gateway.store.ingest,
            EntityImport.Options(organization: organization.id, source: "import"),
            limit: { 9 },
            refused: { _ in refusals += 1 },
            pause: { _ in await Task.yield() },
            passed: { _, _, _ in }
        )
        var rest: [UInt8]? = Array((lines.joined(separator: "\n") + "\n").utf8)
        let report = try await work.run {
            defer { rest = nil }
            return rest
        }
        #expect(report.applied == 4 && refusals == 0)
        let changes = try await Phone(gateway, organization).pull()
        let ids = Self.pairs.flatMap { [Self.json($0.left), Self.json($0.right)] }
        #expect(Self.exact(changes.map { $0["id"]?.text }) == Self.exact(ids))
        #expect(Self.exact(changes.map { $0["document"]?["title"]?.text }) == Self.exact(ids))
    }

    @Test func `numbers two entities with equivalent ids on a device`() async throws {
        let gateway = try await Gateway()
        let organization = try await folderOrganization(gateway)
        let source = EventSource(gateway, organization)
        let ids = Self.pairs.flatMap { [Self.json($0.left), Self.json($0.right)] }
        for (index, id) in ids.enumerated() {
            #expect(try await source.results([EventSource.event("\(index)", id, version: 1)]) == ["applied"])
        }
        let phone = Phone(gateway, organization)
        for _ in 0..<2 {
            let page = try await gateway.store.pulls.pull(
                PullRequest(body: Array(#"{"since":null,"next_local_ids":{"task":1}}"#.utf8), limit: 65_536),
                device: phone.device,
                organization: organization,
                user: phone.user
            )
            let changes = try JSONTree(parsing: page.json()).root.changes
            #expect(Self.exact(changes.map { $0["id"]?.text }) == Self.exact(ids))
            #expect(changes.map { $0["local_id"]?.int64 } == [1, 2, 3, 4])
        }
    }

    @Test func `writes two members with equivalent names`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let document = #"{"K":1,"\u212a":2,"caf\u00e9":3,"cafe\u0301":4}"#
        let id = try #require(try await phone.push([phone.create(payload: document)]).results[0].serverID)
        let patch = phone.entry("update", server: #""\#(id)""#, payload: #"{"\u212a":null,"cafe\u0301":5}"#)
        #expect(try await phone.push([patch]).results[0].status == "succeeded")
        let members = try #require(try await phone.pull().first?["document"]?.members)
        #expect(members.map { "\($0.name.string.unicodeScalars.count) \($0.value.text)" } == ["1 1", "4 3", "5 5"])
    }
}
