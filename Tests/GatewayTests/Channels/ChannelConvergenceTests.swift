import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import TestSupport
import Testing

/// Random histories of channels at two gateways on one database, against sets that the test computes.
///
/// Each gateway caches grants, so a grant at one gateway has to reach the pulls of the other gateway.
@Suite struct ChannelConvergenceTests {
    @Test func `devices have exactly what their users see, at both gateways`() async throws {
        let seed = Seed()
        var history = try await History(seed)
        for step in 1...240 {
            try await history.step()
            guard step.isMultiple(of: 12) else { continue }
            for reader in history.readers.indices { try await history.compare(reader) }
        }
    }
}

/// What the test has written, and what the devices have received.
private struct History {
    struct Note {
        var channels: Set<Int>
        var title: Int
        var isDeleted = false
    }

    struct Reader {
        /// The same user and device at both gateways.
        let workers: [SyncWorker]
        var granted: Set<Int> = []
        /// Channels by the membership that grants them.
        var memberships: [String: Int] = [:]
        var cursor: String?
        var rows: [String: Int64] = [:]
        var couldSee: Set<String> = []

        var held: Set<Int> { granted.union(memberships.values) }
    }

    private static let channels = 0..<4
    private static let memberships = #"""
        {"visibility":"channels","channels":["office"],
         "grants":[{"user":"/user","channels":["c/{/c}"],"role":"read"}]}
        """#

    let seed: Seed
    private var random: SeededRandom
    private let fixture: TwoTenantFixture
    private let gateways: [LiveGateway]
    /// Holds the channel `office`, in which all entities are.
    private let writers: [SyncWorker]
    private(set) var readers: [Reader]
    private var written: [String: Note] = [:]
    private var visibility = "channels"
    private var evaluations = 0
    private var titles = 0

    init(_ seed: Seed) async throws {
        self.seed = seed
        random = seed.generator
        fixture = try await TwoTenantFixture(operates: true)
        let (first, organization) = (fixture.gateway, fixture.ada.organization)
        let second = try await LiveGateway.start(on: first.database)
        gateways = [first, second]
        var workers: [[SyncWorker]] = []
        for _ in 0..<4 {
            let worker = try await SyncWorker(first, organization: organization)
            workers.append([worker, try await SyncWorker(second, organization: organization, user: worker.user)])
        }
        writers = workers[0]
        readers = workers.dropFirst().map { Reader(workers: $0) }
        for (name, type) in [("note", Self.notes(visibility)), ("membership", Self.memberships)] {
            let made = try await fixture.operate(.PUT, fixture.admin + "/entity-types/\(name)", type)
            #expect(made.status == 201, "\(made.text)")
        }
        let path = "\(fixture.admin)/users/\(writers[0].user.lowercased)/channels"
        let granted = try await fixture.operate(.PUT, path, #"{"channel":"office","role":"write"}"#)
        #expect(granted.status == 201, "\(granted.text)")
    }

    private static func notes(_ visibility: String) -> String {
        let channels = visibility == "channels" ? #"["c/{/c}","office","user/{owner}"]"# : "[]"
        return #"{"visibility":"\#(visibility)","channels":\#(channels)}"#
    }

    // MARK: - Steps

    mutating func step() async throws {
        let reader = readers.indices.randomElement(using: &random) ?? 0
        switch random.oneIn(30) ? -1 : Int.random(in: 0..<12, using: &random) {
        case -1: try await changeVisibility()
        case 0...1: try await create()
        case 2...3: try await move()
        case 4: try await delete()
        case 5: try await grant(reader)
        case 6: try await revoke(reader)
        case 7: try await join(reader)
        case 8: try await leave(reader)
        default: _ = try await pull(reader, limit: Int.random(in: 1...4, using: &random))
        }
        // a tombstone is in the channels of its last document, even if the type has lost its channels
        for index in readers.indices {
            let held = readers[index].held
            let seen = written.filter { _, note in
                sees(note, index) || note.isDeleted && !note.channels.isDisjoint(with: held)
            }.keys
            readers[index].couldSee.formUnion(seen)
        }
    }

    /// Changes who sees the notes, and waits until their channels are evaluated.
    private mutating func changeVisibility() async throws {
        let next =
            ["channels", "organization", "user"].filter { $0 != visibility }
            .randomElement(using: &random) ?? "channels"
        let status = try await operate(.PUT, "/entity-types/note", Self.notes(next))
        #expect(status == 200, "\(seed)")
        if [visibility, next].contains("channels"), !written.isEmpty { evaluations += 1 }
        visibility = next
        for gateway in gateways { gateway.clock.advance(seconds: 10) }
        let (fixture, count) = (fixture, evaluations)
        try await waitUntil("\(count) evaluations are done", every: .milliseconds(50)) {
            let reply = try await fixture.operate(.GET, fixture.admin + "/operations?state=done")
            return reply.json?["operations"]?.elements?.count { _ in true } == count
        }
    }

    /// Whether a reader sees a note. The notes belong to the writers.
    private func sees(_ note: Note, _ reader: Int) -> Bool {
        switch visibility {
        case "organization": true
        case "user": false
        default: !note.channels.isDisjoint(with: readers[reader].held)
        }
    }

    private mutating func document() -> (text: String, note: Note) {
        titles += 1
        let chosen = Set(Self.channels.filter { _ in random.oneIn(3) })
        let list = chosen.sorted().map(String.init).joined(separator: ",")
        return (#"{"title":\#(titles),"c":[\#(list)]}"#, Note(channels: chosen, title: titles))
    }

    private mutating func push(_ draft: (SyncWorker) -> Draft) async throws -> String {
        let worker = writers[Int.random(in: 0...1, using: &random)]
        let reply = try await worker.push([draft(worker)])
        try #require(reply.statuses == ["succeeded"], "\(reply.text), \(seed)")
        return try #require(reply.results[0]["server_id"]?.string)
    }

    private mutating func create() async throws {
        let (text, note) = document()
        written[try await push { $0.create("note", text) }] = note
    }

    private mutating func move() async throws {
        guard let id = living() else { return }
        let (text, note) = document()
        _ = try await push { $0.draft("replace", "note", ["server_id": #""\#(id)""#, "payload": text]) }
        written[id] = note
    }

    private mutating func delete() async throws {
        guard let id = living() else { return }
        _ = try await push { $0.change("delete", "note", server: id) }
        written[id]?.isDeleted = true
    }

    private mutating func living() -> String? {
        written.filter { !$0.value.isDeleted }.keys.sorted().randomElement(using: &random)
    }

    private mutating func operate(_ method: HTTPMethod, _ path: String, _ body: String? = nil) async throws -> Int {
        let gateway = gateways[Int.random(in: 0...1, using: &random)]
        let url = gateway.operations + fixture.admin + path
        return try await send(method, url, token: LiveGateway.operatorToken, body: body.map { Array($0.utf8) }).status
    }

    private mutating func grant(_ reader: Int) async throws {
        let channel = Int.random(in: Self.channels, using: &random)
        let body = #"{"channel":"c/\#(channel)","role":"read"}"#
        let status = try await operate(.PUT, "/users/\(readers[reader].workers[0].user.lowercased)/channels", body)
        #expect(status == (readers[reader].granted.insert(channel).inserted ? 201 : 200), "\(seed)")
    }

    private mutating func revoke(_ reader: Int) async throws {
        guard let channel = readers[reader].granted.sorted().randomElement(using: &random) else { return }
        let path = "/users/\(readers[reader].workers[0].user.lowercased)/channels?channel=c/\(channel)"
        #expect(try await operate(.DELETE, path) == 204, "\(seed)")
        readers[reader].granted.remove(channel)
    }

    private mutating func join(_ reader: Int) async throws {
        let channel = Int.random(in: Self.channels, using: &random)
        let text = #"{"user":\#(readers[reader].workers[0].user.quoted),"c":\#(channel)}"#
        readers[reader].memberships[try await push { $0.create("membership", text) }] = channel
    }

    private mutating func leave(_ reader: Int) async throws {
        guard let id = readers[reader].memberships.keys.sorted().randomElement(using: &random) else { return }
        _ = try await push { $0.change("delete", "membership", server: id) }
        readers[reader].memberships[id] = nil
    }

    // MARK: - Pulls

    /// The living notes that a reader sees, with their titles.
    private func visible(to reader: Int) -> [String: Int64] {
        written.filter { !$0.value.isDeleted && sees($0.value, reader) }.mapValues { Int64($0.title) }
    }

    /// Pulls a page at one of the gateways. Some pages are lost, and pulled again by the next call.
    ///
    /// - Returns: whether the device is up to date.
    private mutating func pull(_ reader: Int, limit: Int, losesPages: Bool = true) async throws -> Bool {
        let worker = readers[reader].workers[Int.random(in: 0...1, using: &random)]
        let since = readers[reader].cursor.map { "&since=\($0)" } ?? ""
        let page = try await worker.get("/v1/changes?limit=\(limit)\(since)")
        if page.status == 410 {
            // a change between user and organization
            (readers[reader].cursor, readers[reader].rows) = (nil, [:])
            return false
        }
        try #require(page.status == 200, "\(page.text), \(seed)")
        let visible = visible(to: reader)
        for change in page.changes {
            let id = try #require(change["id"]?.string)
            #expect(change["entity_type"]?.string == "note", "\(seed)")
            let title = change["document"]?["title"]?.int64
            if let title {
                #expect(visible[id] == title, "\(id) is shown, \(seed)")
            } else {
                // a visible note can be removed, and shown again by the channel that was granted since
                #expect(readers[reader].couldSee.contains(id), "\(change.text) was never seen, \(visibility), \(seed)")
            }
        }
        if losesPages, random.oneIn(4) { return false }
        for change in page.changes {
            let id = try #require(change["id"]?.string)
            readers[reader].rows[id] = change["document"]?["title"]?.int64
        }
        readers[reader].cursor = page.next
        return page.isUpToDate != false
    }

    /// Pulls everything, and compares the device's rows with the notes that its user sees.
    mutating func compare(_ reader: Int) async throws {
        while try await !pull(reader, limit: 7, losesPages: false) {}
        #expect(readers[reader].rows == visible(to: reader), "\(seed)")
    }
}
