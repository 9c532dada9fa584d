import Foundation
import JSONText
import SyncModel
import TestSupport
import Testing

@testable import IngestFeature

/// How an API's data becomes events.
@Suite struct SourceMappingTests {
    static func mapping(_ text: String) throws -> SourceMapping {
        var report = MemberReport()
        let mapping = SourceMapping(try JSONTree(parsing: Array(text.utf8)).root, at: "/mapping", &report)
        #expect(report.problems == [])
        return try #require(mapping)
    }

    static func map(
        _ mapping: String,
        _ body: String,
        id: MappedID = .message("msg_1"),
        _ limits: IntakeLimits = IntakeLimits()
    ) throws -> MappedEvents {
        try self.mapping(mapping).map(try JSONTree(parsing: Array(body.utf8)).root, id: id, limits: limits)
    }

    private func places(_ entry: IngestRequest.Entry) -> [String] {
        if case .failure(let problem) = entry.event { problem.errors.map(\.pointer) } else { [] }
    }

    private let contacts = """
        {"rules": [
          {"when": {"/type": ["contact.created", "contact.updated"]}, "entity_type": "contact", "operation": "upsert",
           "id": "/data/id", "version": "/data/revision", "occurred_at": "/timestamp", "document": "/data",
           "owner": "/data/owner_id", "causing_key": "/meta/idempotency_key"},
          {"when": {"/type": "contact.deleted"}, "entity_type": "contact", "operation": "delete", "id": "/data/id",
           "version": "/data/revision", "document": "/data"}]}
        """

    /// With a version that is not a number, each event is written, read and refused.
    @Test(arguments: [(15, true), (18, false)], ["1", #""x""#])
    func `rejects messages whose events repeat more than 4 MiB of them`(
        _ count: (Int, Bool),
        _ version: String
    ) throws {
        let (items, isAccepted) = count
        let mapping = """
            {"events": "/items", "rules": [{"entity_type": "contact", "operation": "upsert", "id": "/id",
              "version": "/version", "document": "^/big"}]}
            """
        let list = (0..<items).map { #"{"id":\#($0),"version":\#(version)}"# }.joined(separator: ",")
        let big = String(repeating: "x", count: 250_000)
        let body = #"{"items":[\#(list)],"big":{"text":"\#(big)"}}"#
        if isAccepted {
            #expect(try Self.map(mapping, body).entries.count == items)
        } else {
            let problem = #expect(throws: Problem.self) { try Self.map(mapping, body) }
            #expect(problem?.code == .payloadTooLarge)
        }
    }

    @Test func `a message of invalid items lists a limited number of errors in total`() throws {
        let mapping = """
            {"events": "/items", "rules": [{"entity_type": "contact", "operation": "upsert", "id": "/id",
              "version": "/id", "document": "/d"}]}
            """
        let texts = Array(repeating: #""\u0000""#, count: 60).joined(separator: ",")
        let items = (0..<400).map { #"{"id":\#($0),"d":{"a":[\#(texts)]}}"# }.joined(separator: ",")
        let problems = try Self.map(mapping, #"{"items":[\#(items)]}"#).entries.compactMap { entry in
            if case .failure(let problem) = entry.event { problem } else { nil }
        }
        #expect(problems.count == 400 && problems[0].errors.count == ErrorBounds.perEntry)
        #expect(problems.reduce(0) { $0 + $1.errors.count } <= ErrorBounds.perRequest + 400)
        #expect(problems.allSatisfy { $0.errors.count + $0.omittedErrors >= 60 })
    }

    @Test func `the first matching rule creates the event, with all its members`() throws {
        let body = """
            {"type": "contact.updated", "timestamp": "2026-11-20T07:00:00Z",
             "data": {"id": 4711, "revision": 7, "owner_id": "0192f0c2-2345-7abc-8def-0123456789ab", "a": 1.50},
             "meta": {"idempotency_key": "0192f0c1-5e7d-8abc-8def-0123456789ab"}}
            """
        let events = try Self.map(contacts, body)
        let event = try #require(events.entries.first).event.get()
        #expect(event.id == "msg_1" && event.entityType == "contact" && event.entityID == ServerID(4711))
        #expect(event.mark.version == 7 && event.mark.occurredAt == Timestamp(rfc3339: "2026-11-20T07:00:00Z"))
        #expect(event.owner?.uuidString == "0192F0C2-2345-7ABC-8DEF-0123456789AB" && event.causingKey != nil)
        #expect(event.document.map { String(decoding: $0, as: UTF8.self) }?.contains("1.50") == true)
        #expect(events.origins.first?.rule == 0 && events.origins.first?.place == "" && events.ignored == 0)
        let gone = try Self.map(contacts, #"{"type": "contact.deleted", "data": {"id": "x", "revision": 8}}"#)
        let deletion = try #require(gone.entries.first).event.get()
        #expect(deletion.operation == .delete && deletion.document == nil && gone.origins.first?.rule == 1)
    }

    @Test(arguments: [#"{"type": "invoice.paid"}"#, "{}", "[]", "7", "null", #""contact.created""#])
    func `ignores a body that no rule matches`(body: String) throws {
        let events = try Self.map(contacts, body)
        #expect(events.entries.isEmpty && events.ignored == 1)
    }

    @Test func `an array becomes one event per item, whose id names the message and the item's place`() throws {
        let mapping = """
            {"events": "/data/changes", "rules": [
              {"when": {"/skip": null}, "entity_type": "note", "operation": {"at": "/op", "values":
                {"c": "upsert", "d": "delete"}}, "id": "/id", "occurred_at": "^/sent", "occurred_at_unit": "seconds",
               "document": ""}]}
            """
        let body = """
            {"sent": 1795000000, "data": {"changes": [{"op": "c", "id": "a"}, {"skip": true}, {"op": "d", "id": 2},
             {"op": "x", "id": 3}]}}
            """
        let events = try Self.map(mapping, body)
        #expect(events.entries.map(\.eventID) == ["msg_1#0", "msg_1#2", "msg_1#3"])
        #expect(events.origins.map(\.place) == ["/data/changes/0", "/data/changes/2", "/data/changes/3"])
        #expect(events.ignored == 1)
        let first = try events.entries[0].event.get()
        #expect(first.mark.occurredAt == Timestamp(microseconds: 1_795_000_000_000_000))
        #expect(first.document == Array(#"{"op": "c", "id": "a"}"#.utf8))
        #expect(try events.entries[1].event.get().operation == .delete)
        #expect(places(events.entries[2]) == ["/data/changes/3/op"])
        #expect(throws: Problem.self) { _ = try Self.map(mapping, #"{"data": {"changes": {}}}"#) }
        var limits = IntakeLimits()
        limits.mutations = 3
        #expect { _ = try Self.map(mapping, body, limits) } throws: { ($0 as? Problem)?.code == .payloadTooLarge }
    }

    @Test func `a soft deletion is a deletion`() throws {
        let mapping = """
            {"events": "", "rules": [{"entity_type": "note", "operation": {"at": "/deleted_at", "values":
              {"null": "upsert"}, "otherwise": "delete"}, "id": "/id", "version": "/v", "document": ""}]}
            """
        let body =
            #"[{"id": 1, "v": 1, "deleted_at": null}, {"id": 2, "v": 1}, {"id": 3, "v": 1, "deleted_at": "now"}]"#
        let operations = try Self.map(mapping, body).entries.map { try $0.event.get().operation }
        #expect(operations == [.upsert, .upsert, .delete])
    }

    @Test(arguments: [
        (#"{"id": null, "v": 1, "d": {}}"#, ["/id"]), (#"{"id": 1, "v": "1", "d": {}}"#, ["/v"]),
        (#"{"id": 1, "v": 1}"#, ["/d"]), (#"{"id": 1, "v": 1, "d": []}"#, ["/d"]),
        (#"{"id": {}, "v": -1, "d": 7}"#, ["/id", "/v", "/d"]), (#"{"id": 1, "d": {}}"#, ["/v"]),
        (#"{"id": 1, "v": 1, "at": 5, "d": {}}"#, ["/at"]), (#"{"id": 1, "v": 1, "at": "today", "d": {}}"#, ["/at"]),
        (#"{"id": 1, "v": 1, "o": "me", "d": {}}"#, ["/o"]), (#"{"id": 1, "v": 1, "e": {}, "d": {}}"#, ["/e"]),
        (#"{"id": 1, "v": 1, "d": {"a": {"b": 1, "b": 2}}}"#, ["/d/a/b"]),
    ])
    func `a value of a wrong kind refuses the event with its pointer`(body: String, pointers: [String]) throws {
        let rule = """
            {"entity_type": "note", "operation": "upsert", "id": "/id", "version": "/v", "document": "/d",
             "occurred_at": "/at", "owner": "/o"\(body.contains(#""e""#) ? #", "event_id": "/e""# : "")}
            """
        let events = try Self.map(#"{"rules": [\#(rule)]}"#, body)
        #expect(places(try #require(events.entries.first)) == pointers)
        let nested = try Self.map(#"{"events": "/x", "rules": [\#(rule)]}"#, #"{"x": [\#(body)]}"#)
        #expect(places(try #require(nested.entries.first)) == pointers.map { "/x/0" + $0 })
    }

    @Test func `pointers of the evaluation refer to the body, too`() throws {
        let events = try Self.map(contacts, #"{"type": "contact.updated", "data": {"id": 1, "revision": 1}}"#)
        let problem = Problem(.validationFailed, pointer: "/events/0/owner", rule: Rule.required, "owner is required")
        #expect(events.placed(problem, of: 0).errors.map(\.pointer) == ["/data/owner_id"])
        let type = Problem(.validationFailed, pointer: "/events/0/entity_type", rule: Rule.entityType, "no such type")
        #expect(events.placed(type, of: 0).errors.map(\.pointer) == [""])
    }

    @Test func `a content id is equal for the same change and differs for others`() throws {
        let versions = #"{"rules": [{"entity_type":"n","operation":"upsert","id":"/id","version":"/v","document":""}]}"#
        let times =
            #"{"rules": [{"entity_type":"n","operation":"upsert","id":"/id","occurred_at":"/t","document":""}]}"#
        func id(_ mapping: String, _ body: String) throws -> String {
            try #require(Self.map(mapping, body, id: .content).entries.first?.eventID)
        }
        #expect(try id(versions, #"{"id":1,"v":2,"a":1}"#) == id(versions, #"{"a": 5, "id": 1, "v": 2}"#))
        #expect(try id(versions, #"{"id":1,"v":2}"#) != id(versions, #"{"id":1,"v":3}"#))
        #expect(try id(versions, #"{"id":1,"v":2}"#) != id(versions, #"{"id":"1","v":2}"#))
        // two changes may have the same time
        let (one, same, other) = (
            #"{"id":1,"t":"2026-11-20T07:00:00Z","a":1}"#, #"{"a":1,"t":"2026-11-20T07:00:00Z","id":1}"#,
            #"{"id":1,"t":"2026-11-20T07:00:00Z","a":2}"#
        )
        #expect(try id(times, one) == id(times, same))
        #expect(try id(times, one) != id(times, other))
        // a long message id is shortened to an event id
        let long = String(repeating: "m", count: 256)
        let named = try Self.map(versions, #"{"id":1,"v":2}"#, id: .message(ByteExactString(long))).entries[0]
        #expect(try named.event.get().id.hasPrefix("sha256:"))
    }

    @Test(arguments: [
        ("7", ["/mapping"]), ("{}", ["/mapping/rules"]), (#"{"rules": []}"#, ["/mapping/rules"]),
        (
            #"{"rules": [{}], "more": 1}"#,
            [
                "/mapping/rules/0/entity_type", "/mapping/rules/0/operation", "/mapping/rules/0/id",
                "/mapping/rules/0/version", "/mapping/more",
            ]
        ),
        (
            #"{"rules": [{"entity_type":"X","operation":"merge","id":"id","version":"/~2","when":7}]}"#,
            ["entity_type", "operation", "id", "version", "when"].map { "/mapping/rules/0/" + $0 }
        ),
        (
            #"{"rules": [{"entity_type":"x","operation":"upsert","id":"/id","version":"/v"}]}"#,
            [
                "/mapping/rules/0/document"
            ]
        ),
        (
            #"{"rules": [{"entity_type":"x","operation":{"at":"/o","values":{}},"id":"/i","version":"/v"}]}"#,
            ["/mapping/rules/0/operation/values"]
        ),
        (
            #"{"rules": [{"entity_type":"x","operation":"delete","id":"/i","version":"/v","when":{"/a":[],"b":1,"/c":{}}}]}"#,
            ["/mapping/rules/0/when/~1a", "/mapping/rules/0/when/b", "/mapping/rules/0/when/~1c"]
        ),
        (
            #"{"rules": [{"entity_type":"x","operation":"delete","id":"/i","version":"/v","occurred_at_unit":"seconds"}]}"#,
            ["/mapping/rules/0/occurred_at_unit"]
        ),
        (
            #"{"rules": [{"entity_type":"x","entity_type":"y","operation":"delete","id":"/i","version":"/v"}]}"#,
            [
                "/mapping/rules/0/entity_type"
            ]
        ),
    ])
    func `refuses an invalid mapping with all its pointers`(text: String, pointers: [String]) throws {
        var report = MemberReport()
        let mapping = SourceMapping(try JSONTree(parsing: Array(text.utf8)).root, at: "/mapping", &report)
        #expect(mapping == nil)
        #expect(report.problems.map(\.pointer) == pointers)
    }

    @Test func `a mapping's limits hold`() throws {
        let rule = #"{"entity_type":"x","operation":"delete","id":"/i","version":"/v"}"#
        func problems(_ text: String) throws -> Int {
            var report = MemberReport()
            _ = SourceMapping(try JSONTree(parsing: Array(text.utf8)).root, at: "", &report)
            return report.problems.count
        }
        func rules(_ count: Int) -> String {
            #"{"rules":[\#([String](repeating: rule, count: count).joined(separator: ","))]}"#
        }
        #expect(try problems(rules(50)) == 0 && problems(rules(51)) == 1)
        func conditions(_ count: Int) -> String {
            let all = (0..<count).map { #""/c\#($0)":1"# }.joined(separator: ",")
            return #"{"rules":[{"when":{\#(all)},\#(rule.dropFirst())]}"#
        }
        #expect(try problems(conditions(20)) == 0 && problems(conditions(21)) == 1)
        func pointer(_ count: Int) -> String {
            #"{"rules":[\#(rule.replacing("/i", with: "/" + String(repeating: "i", count: count - 1)))]}"#
        }
        #expect(try problems(pointer(500)) == 0 && problems(pointer(501)) == 1)
    }

    @Test func `an encoded mapping decodes to itself`() throws {
        for text in [
            contacts,
            contacts.replacing(
                #""operation": "upsert""#,
                with: #""operation": {"at":"^/o","values":{"a":"patch"},"otherwise":"upsert"}"#
            ),
        ] {
            let mapping = try Self.mapping(text)
            var writer = JSONWriter()
            mapping.write(to: &writer)
            #expect(try Self.mapping(String(decoding: writer.bytes, as: UTF8.self)) == mapping)
        }
    }

    @Test func `the problem of a message counts the errors that its events omit`() throws {
        var refusal = Problem(.validationFailed, "the event is not valid")
        refusal.omittedErrors = 3
        let verdicts = ["a", "b"].map { IngestVerdict(eventID: $0, .refused, problem: refusal) }
        let problem = try #require(ReceiverEndpoint.problem(of: verdicts, MappedEvents()))
        #expect(problem.omittedErrors == 6)
    }

    // MARK: - Any mapping, any body

    /// The pointer of a reason refers to the body or to a missing member.
    @Test(arguments: 0..<40)
    func `any mapping turns any body into an event, a reason or nothing, repeatably`(seed: Int) throws {
        var random = SeededRandom(UInt64(seed))
        for _ in 0..<50 {
            let mapping = try Self.mapping(Self.anyMapping(&random))
            let root = try JSONTree(parsing: Array(Self.anyValue(4, &random).utf8)).root
            let id: MappedID = Bool.random(using: &random) ? .content : .message("m")
            do throws(Problem) {
                let events = try mapping.map(root, id: id, limits: IntakeLimits())
                let again = try mapping.map(root, id: id, limits: IntakeLimits())
                #expect(events.entries.map(\.eventID) == again.entries.map(\.eventID))
                #expect(events.entries.count == events.origins.count)
                for (entry, origin) in zip(events.entries, events.origins) {
                    #expect(root.value(at: origin.place) != nil && mapping.rules.indices.contains(origin.rule))
                    switch entry.event {
                    case .success(let event):
                        #expect(entry.eventID == event.id && !event.id.isEmpty)
                        #expect((event.document == nil) == (event.operation == .delete))
                        #expect(event.mark != SourceMark())
                    case .failure(let problem):
                        #expect(problem.code == .validationFailed && !problem.errors.isEmpty)
                        #expect(problem.errors.allSatisfy { JSONPointer.isValid($0.pointer) }, "\(problem.errors)")
                    }
                }
            } catch {
                #expect(error.code == .validationFailed && mapping.events != nil)
            }
        }
    }

    private static let names = ["a", "b", "c", "", "0", "a/b", "~"]

    private static func anyPointer(_ random: inout SeededRandom) -> String {
        let steps = (0..<Int.random(in: 0...2, using: &random)).map { _ in names.randomElement(using: &random) ?? "a" }
        var pointer = JSONPointer()
        for step in steps { pointer.append(member: step) }
        return (Int.random(in: 0...4, using: &random) == 0 ? "^" : "") + pointer.text
    }

    private static func anyValue(_ depth: Int, _ random: inout SeededRandom) -> String {
        let scalars = [
            "null", "true", "false", "0", "-1", "7", "1.5", "1e400", "1795000000", #""a""#, #""""#, #""\u0000""#,
            #""2026-11-20T07:00:00Z""#,
        ]
        if depth == 0 { return scalars.randomElement(using: &random) ?? "0" }
        switch Int.random(in: 0...5, using: &random) {
        case 0: return scalars.randomElement(using: &random) ?? "0"
        case 1:
            let items = (0..<Int.random(in: 0...3, using: &random)).map { _ in anyValue(depth - 1, &random) }
            return "[" + items.joined(separator: ",") + "]"
        default:
            let members = (0..<Int.random(in: 0...4, using: &random)).map { _ in
                #""\#(names.randomElement(using: &random) ?? "a")":"# + anyValue(depth - 1, &random)
            }
            return "{" + members.joined(separator: ",") + "}"
        }
    }

    private static func anyMapping(_ random: inout SeededRandom) -> String {
        func text() -> String { #""\#(anyPointer(&random))""# }
        func maybe(_ name: String) -> String { Bool.random(using: &random) ? #","\#(name)":\#(text())"# : "" }
        let rules = (0..<Int.random(in: 1...3, using: &random)).map { _ in
            let conditions = Bool.random(using: &random) ? #""when":{\#(text()):[7,"a",null,true]},"# : ""
            let operation =
                [#""upsert""#, #""delete""#, #""patch""#, #"{"at":\#(text()),"values":{"a":"upsert","7":"delete"}}"#]
                .randomElement(using: &random) ?? #""delete""#
            let unit =
                ["", #","occurred_at_unit":"seconds""#, #","occurred_at_unit":"milliseconds""#]
                .randomElement(using: &random) ?? ""
            return "{" + conditions
                + #""entity_type":"x","operation":\#(operation),"id":\#(text()),"document":\#(text()),"#
                + #""occurred_at":\#(text())\#(unit)"# + maybe("version") + maybe("event_id") + maybe("owner")
                + maybe("causing_key") + "}"
        }
        let events = Bool.random(using: &random) ? #""events":\#(text()),"# : ""
        return "{" + events + #""rules":[\#(rules.joined(separator: ","))]}"#
    }
}
