import Foundation
import JSONText
import TestSupport
import Testing

@testable import IngestFeature
@testable import SyncModel

/// Texts are compared by bytes: no rule treats two texts of different bytes as equal.
@Suite struct ByteExactStringTests {
    @Test(arguments: TextPair.all)
    func `distinguishes texts of different bytes`(_ pair: TextPair) {
        let (left, right) = (ByteExactString(pair.left), ByteExactString(pair.right))
        #expect(left != right && left == ByteExactString(pair.left))
        #expect(Set([left, right]).count == 2)
        #expect((left < right) == pair.left.utf8.lexicographicallyPrecedes(pair.right.utf8))
        #expect((left < right) != (right < left))
    }

    @Test func `texts with the same bytes are equal, however the strings store them`() {
        let text = String(repeating: "caf\u{e9} ", count: 20)
        for count in 0...text.utf8.count {
            guard let prefix = String(text.utf8.prefix(count)) else { continue }
            let other = ByteExactString((prefix + "x").dropLast())
            #expect(ByteExactString(prefix) == other && ByteExactString(prefix).hashValue == other.hashValue)
            #expect(
                ByteExactString(prefix) != ByteExactString(prefix + "x")
                    && ByteExactString("x" + prefix) != ByteExactString(prefix)
            )
            #expect(ByteExactString(prefix) < ByteExactString(prefix + "x"))
        }
    }

    /// The lint permits comparisons of external texts with lower-case ASCII literals by Swift's own equality.
    @Test func `three non-ASCII characters are equivalent to ASCII`() {
        let ascii = Set((0..<128).map { String(Unicode.Scalar(UInt8($0))) })
        let found = (UInt32(128)...0x10_ffff).compactMap(Unicode.Scalar.init).filter { ascii.contains(String($0)) }
        #expect(found.map(\.value) == [0x37e, 0x1fef, 0x212a])
    }

    @Test func `distinguishes ids and names in every key`() {
        let seed = Seed()
        var random = seed.generator
        for _ in 0..<2_000 {
            let pair = TextPair.random(using: &random)
            let note = Comment(rawValue: "\(seed): \(pair)")
            func apart<Value: Hashable>(_ make: (String) -> Value) {
                let (left, right) = (make(pair.left), make(pair.right))
                #expect(left != right, note)
                #expect(left == make(pair.left) && left.hashValue == make(pair.left).hashValue, note)
                #expect(Set([left, right]).count == 2, note)
            }
            apart { ServerID(text: $0, isInteger: false) }
            apart { EntityKey(type: "contact", id: $0) }
            apart { IngestSamples.event($0) }
            apart { IngestSamples.event("e", of: ServerID(text: $0, isInteger: false)) }
            apart { QualifiedName(schema: $0, name: "n") }
            apart { QualifiedName(schema: "s", name: $0) }
            apart { MappedScalar.text(ByteExactString($0)) }
            apart { SinceValue.text(ByteExactString($0)) }
            apart { PollState.Place.cursor(ByteExactString($0)) }
            apart { SealedPlace.document(type: "contact", id: $0) }
            apart { SealedPlace.parked(source: "crm", event: $0) }
            apart { UpstreamCredential.bearer($0) }
            apart { UpstreamCredential.header(name: "x", value: $0) }
            apart { Relation(member: $0, entityType: "contact", idSpace: nil) }
            apart { PreviewedRequest.Header(name: "x", value: $0) }
        }
    }

    @Test func `distinguishes JSON members`() throws {
        let seed = Seed()
        var random = seed.generator
        for _ in 0..<1_000 {
            let pair = TextPair.random(using: &random)
            let note = Comment(rawValue: "\(seed): \(pair)")
            let both = JSONWriter.object { writer in
                writer.name(pair.left)
                writer.int(1)
                writer.name(pair.right)
                writer.int(2)
            }
            let tree = try JSONTree(parsing: both)
            #expect(tree.defects.isEmpty, note)
            for (name, number) in [(pair.left, 1), (pair.right, 2)] {
                let pointer = JSONPointer().appending(member: name).text
                #expect(tree.root.value(at: pointer)?.int64 == Int64(number), note)
            }
            let patch = JSONWriter.object { writer in
                writer.name(pair.left)
                writer.null()
            }
            let merged = try JSONValue.mergePatch(target: both, patch: try JSONTree(parsing: patch).root)
            let names = try #require(try JSONTree(parsing: merged).root.members).map { Array($0.name.string.utf8) }
            #expect(names == [Array(pair.right.utf8)], note)
            let one = JSONWriter.object { writer in
                writer.name(pair.left)
                writer.int(3)
            }
            let overlaid = try #require(BuiltInStore.overlay(one, over: both))
            #expect(try JSONTree(parsing: overlaid).root.members.map { Array($0).count } == 2, note)
            var (left, right, ids): ([UInt8], [UInt8], [UUID]) = ([], [], [])
            for (name, isLeft) in [(pair.left, true), (pair.right, false)] {
                let text = JSONWriter.object { writer in
                    writer.name(name)
                    writer.string(name)
                }
                let value = try JSONTree(parsing: text).root
                if isLeft {
                    value.appendCanonical(to: &left, identifiers: &ids)
                } else {
                    value.appendCanonical(to: &right, identifiers: &ids)
                }
            }
            #expect(left != right, note)
        }
    }

    // MARK: - Rules

    @Test func `gives two entities of one page two numbers`() throws {
        var planner = PullPlanner(counters: ["task": 1])
        let names = ["K1", "\u{212a}1", "caf\u{e9}", "cafe\u{301}"].map {
            planner.name(ServerID(text: $0, isInteger: false), of: "task")
        }
        for name in names { planner.add(name, isDeleted: false) }
        planner.chooseAssignees()
        try planner.assign(["task": FreeLocalIDs(from: 1, highest: nil)])
        #expect(names.map { planner.number(of: $0) } == [1, 2, 3, 4])
    }

    @Test func `applies two events with equivalent ids of events and entities`() {
        let planner = IngestSamples.planner(isForwarded: false)
        var state = IngestState()
        let events = TextPair.all.enumerated().flatMap { index, pair in
            [pair.left, pair.right].map { text in
                IngestSamples.event(
                    "\(index) " + text,
                    of: ServerID(text: "\(index) " + text, isInteger: false),
                    version: 1
                )
            }
        }
        let plan = planner.plan(IngestSamples.batch(events), seen: [:], &state)
        #expect(plan.verdicts.allSatisfy { $0.result == .applied })
        let again = planner.plan(
            IngestSamples.batch([events[0]]),
            seen: [ByteExactString(events[1].id): .applied],
            &state
        )
        #expect(again.verdicts.map(\.result) == [.stale])
    }

    @Test func `matches a mapping's condition by bytes`() throws {
        let mapping = """
            {"rules": [{"when": {"/kind": "K"}, "entity_type": "contact", "operation": "upsert", "id": "/id",
                        "version": "/v", "document": ""}]}
            """
        let known = try SourceMappingTests.map(mapping, #"{"kind":"K","id":"a","v":1}"#)
        let unknown = try SourceMappingTests.map(mapping, #"{"kind":"\u212a","id":"a","v":1}"#)
        #expect(known.entries.count == 1 && unknown.entries.isEmpty && unknown.ignored == 1)
    }

    @Test func `creates two entities for two items of a page`() throws {
        let items = ["K1", #"\u212a1"#].map {
            #"{"id":"\#($0)","version":1,"updated_at":"2026-11-20T07:00:00Z","document":{}}"#
        }
        let mapping = #"{"rules":[\#(PollSamples.rule)],"events":""}"#
        let events = try SourceMappingTests.map(mapping, "[\(items.joined(separator: ","))]", id: .content)
        let found = try events.entries.map { try $0.event.get() }
        #expect(Set(found.map(\.entityID)).count == 2 && Set(found.map { ByteExactString($0.id) }).count == 2)
    }

    @Test func `finds columns by the bytes of their names`() throws {
        let text = """
            {"slot":"s","publication":"p","tables":[{"table":"public.\u{212a}","entity_type":"contact","id":"id",
             "columns":{"K":"k","\u{212a}":"kelvin"}}]}
            """
        var report = MemberReport()
        let settings = ReplicationSettings(try JSONTree(parsing: Array(text.utf8)).root, at: "", &report)
        var reader = LogReader(try #require(settings, "\(report.problems)"), base: 0, limits: IntakeLimits())
        let columns = ["id", "K", "\u{212a}"].map { FollowedColumn(name: $0, type: 25, isKey: $0 == "id") }
        #expect(!reader.isFollowed(1, QualifiedName(schema: "public", name: "K")))
        try reader.relation(1, QualifiedName(schema: "public", name: "\u{212a}"), columns)
        reader.begin(at: IngestSamples.now)
        var entities: Set<ServerID> = []
        for id in ["K1", "\u{212a}1"] {
            let row = [id, "1", "2"].map { ColumnValue.text(Array($0.utf8)) }
            let event = try #require(reader.change(of: 1, old: nil, new: row, at: 9).first).event.get()
            #expect(event.document.map { String(decoding: $0, as: UTF8.self) } == #"{"k":"1","kelvin":"2"}"#)
            entities.insert(event.entityID)
        }
        #expect(entities.count == 2)
    }

    @Test func `ignores the case of ASCII letters only`() {
        #expect(HeaderField.folded("Idempotency-\u{212a}ey") != HeaderField.folded("idempotency-key"))
        #expect(!HeaderField.isReserved("Idempotency-\u{212a}ey") && !HeaderField.isName("Idempotency-\u{212a}ey"))
        let (kelvin, dotless) = ("CHUN\u{212a}ED", "gz\u{131}p")
        #expect(kelvin.lowercased() != "chunked" && kelvin[...].lowercased() != "chunked")
        #expect(dotless.uppercased() != "GZIP" && dotless[...].uppercased() != "GZIP")
        #expect("ChunKed".lowercased() == "chunked" && "gzip"[...].uppercased() == "GZIP")
    }

    @Test func `compares beginnings and ends by bytes`() {
        let (composed, decomposed, slash) = ("caf\u{e9}", "cafe\u{301}", "/\u{301}x/\u{301}")
        #expect(!composed.hasPrefix(decomposed) && !composed[...].hasPrefix(decomposed))
        #expect(!composed.hasSuffix(decomposed) && !composed[...].hasSuffix(decomposed))
        #expect(slash.hasPrefix("/") && slash[...].hasPrefix("/") && slash.hasSuffix("\u{301}"))
    }

    @Test func `quotes a name whose quote has a combining mark`() {
        #expect(
            Array(QualifiedName(schema: "s", name: "a\"\u{301}b").sql.utf8) == Array("\"s\".\"a\"\"\u{301}b\"".utf8)
        )
        let name = QualifiedName("s.\"a\"\"\u{301}b\"")
        #expect(name.map { Array($0.name.utf8) } == Array("a\"\u{301}b".utf8))
    }

    @Test func `finds delimiters that combining marks follow`() {
        let place = CreatedLocation(
            UpstreamSettings(baseURL: "https://api.example.com"),
            path: "/contacts",
            clientID: nil
        )
        #expect(place.finding(in: "/contacts/7?\u{301}a=b") == .entity(ServerID(7)))
    }
}
