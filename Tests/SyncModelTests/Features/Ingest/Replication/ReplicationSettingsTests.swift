import Foundation
import JSONText
import Testing

@testable import IngestFeature
@testable import SyncModel

@Suite struct ReplicationSettingsTests {
    private static func read(_ text: String) throws -> (ReplicationSettings?, [ProblemDetail]) {
        var report = MemberReport()
        let settings = ReplicationSettings(try JSONTree(parsing: Array(text.utf8)).root, at: "/settings", &report)
        return (settings, report.problems)
    }

    private static let table = #"{"table":"public.contact","entity_type":"contact","id":"id"}"#

    private static func settings(_ tables: String) -> String {
        #"{"slot":"sluice","publication":"its \"own\"","tables":[\#(tables)]}"#
    }

    @Test func `parsed settings encode to the same settings`() throws {
        let whole = """
            {"slot":"a_1","publication":"P","create_slot":true,"tables":[\
            {"table":"\\"a.b\\".\\"c\\"\\"d\\"","entity_type":"t","id":"i","owner":"o","version":"v","causing_key":"k",\
            "deleted_at":"d","columns":{"x y":"xY","i":"id"},"renamed":{"x z":"x y","j":"i","h":"i"},\
            "distinct_ids":true},\(Self.table)]}
            """
        let settings = try #require(try Self.read(whole).0)
        #expect(settings.createsSlot && settings.tables.count == 2)
        #expect(settings.tables[0].name == QualifiedName(schema: "a.b", name: "c\"d"))
        #expect(settings.tables[0].name.sql == #""a.b"."c""d""#)
        #expect(settings.tables[0].namedColumns.map(\.column) == ["i", "o", "v", "k", "d", "x y", "i"])
        #expect(settings.tables[1].columns == .all && settings.tables[1].renamed.isEmpty)
        #expect(settings.tables[0].renamed.map(\.name) == ["x z", "j", "h"])
        #expect(settings.tables.map(\.hasDistinctIDs) == [true, false])
        let stored = JSONWriter.object { settings.writeMembers(to: &$0) }
        #expect(try Self.read(String(decoding: stored, as: UTF8.self)).0 == settings)
    }

    // MARK: - Tables with one entity type

    private static func followed(_ name: String, _ type: String, _ more: String = "") -> String {
        #"{"table":"public.\#(name)","entity_type":"\#(type)","id":"id"\#(more)}"#
    }

    private static let distinct = #","distinct_ids":true"#

    @Test(arguments: [
        ([followed("a", "t"), followed("b", "u")], [Int]()),
        ([followed("a", "t", distinct), followed("b", "t", distinct), followed("c", "u")], [Int]()),
        ([followed("a", "t"), followed("b", "u"), followed("c", "t")], [0, 2]),
        ([followed("a", "t", distinct), followed("b", "t")], [1]),
        ([followed("a", "t", #","distinct_ids":false"#), followed("b", "t", distinct)], [0]),
        (
            [
                #"{"table":"a.b","entity_type":"t","id":["x","y"]}"#,
                #"{"table":"a.c","entity_type":"t","id":["x","y"]}"#,
            ],
            [0, 1]
        ),
    ])
    func `refuses tables of one entity type unless each has distinct ids`(tables: [String], refused: [Int]) throws {
        let text = Self.settings(tables.joined(separator: ","))
        let body = #"{"kind":"postgres","secret":"postgresql://u:p@db.example.org/d","settings":\#(text)}"#
        var errors: [ProblemDetail] = []
        do throws(Problem) {
            _ = try SourceUpdate(body: Array(body.utf8))
        } catch {
            #expect(error.code == .validationFailed)
            errors = error.errors
        }
        #expect(errors.map(\.pointer) == refused.map { "/settings/tables/\($0)/entity_type" })
        #expect(errors.allSatisfy { $0.detail.contains("set distinct_ids: true in each table") })
        // settings that an older gateway stored are still read, with a warning
        let stored = try #require(SourceSettings(.postgres, stored: Array(text.utf8)))
        guard case .postgres(let settings) = stored else { return }
        #expect((settings.mergeWarning == nil) == refused.isEmpty)
    }

    @Test func `an id may have several columns`() throws {
        let text = Self.settings(#"{"table":"public.contact","entity_type":"contact","id":["a","b"]}"#)
        let settings = try #require(try Self.read(text).0)
        #expect(settings.tables[0].ids == ["a", "b"])
        let stored = JSONWriter.object { settings.writeMembers(to: &$0) }
        #expect(try Self.read(String(decoding: stored, as: UTF8.self)).0 == settings)
        for id in [#"[]"#, #"["a"]"#, #"["a","a"]"#, #"["a",1]"#, #"["a",""]"#, "7", "{}"] {
            let (_, problems) = try Self.read(
                Self.settings(#"{"table":"public.contact","entity_type":"contact","id":\#(id)}"#)
            )
            #expect(problems.contains { $0.pointer.hasPrefix("/settings/tables/0/id") }, "\(id)")
        }
    }

    @Test func `ids of several columns are different for different rows`() {
        let values = [
            ["a", "b"], ["a:b", ""], ["", "a:b"], ["a~1b", ""], ["a~", "1b"], ["a", ":b"], ["a:", "b"],
        ]
        let texts = values.map { RowID.text($0.map { (.text(Array($0.utf8)), .text) }) }
        #expect(Set(texts).count == values.count)
        #expect(texts[0] == Array("a:b".utf8) && texts[1] == Array("a~1b:".utf8) && texts[3] == Array("a~01b:".utf8))
        #expect(RowID.text([(.text([1]), .text), (.null, .text)]) == nil)
    }

    @Test(arguments: [
        ("1.0", "1"), ("1.00", "1"), ("1.50", "1.5"), ("100", "100"), ("0.0", "0"), ("-0", "0"), ("-0.00", "0"),
        ("-1.20", "-1.2"), ("1e+30", "1e+30"), ("1.5e+30", "1.5e+30"), ("NaN", "NaN"),
    ])
    func `equal numbers give equal ids of several columns`(_ text: String, _ part: String) {
        let id = RowID.text([(.text(Array(text.utf8)), .number), (.text(Array("1.0".utf8)), .text)])
        #expect(id == Array("\(part):1.0".utf8))
    }

    private static let place = "/settings/tables/0"

    @Test(arguments: [
        (#"{}"#, ["/settings/slot", "/settings/publication", "/settings/tables"]),
        (
            #"{"slot":"Aa","publication":"","tables":[]}"#,
            ["/settings/slot", "/settings/publication", "/settings/tables"]
        ),
        (settings(#"{"table":"contact"}"#), [place + "/table", place + "/entity_type", place + "/id"]),
        (
            settings(#"{"table":"a.b.c","entity_type":"T","id":7}"#),
            [place + "/table", place + "/entity_type", place + "/id"]
        ),
        (settings(table + "," + table), ["/settings/tables/1/table"]),
        (settings(#"{"table":"a.b","entity_type":"t","id":"i","columns":{}}"#), [place + "/columns"]),
        (settings(#"{"table":"a.b","entity_type":"t","id":"i","columns":"some"}"#), [place + "/columns"]),
        (
            settings(#"{"table":"a.b","entity_type":"t","id":"i","columns":{"a":"x","b":"x"}}"#),
            [place + "/columns/b"]
        ),
        (settings(#"{"table":"a.b","entity_type":"t","id":"i","rows":1}"#), [place + "/rows"]),
        (settings(#"{"table":"a.b","entity_type":"t","id":"i","renamed":["j"]}"#), [place + "/renamed"]),
        (
            settings(#"{"table":"a.b","entity_type":"t","id":"i","renamed":{"i":"i","j":"","":"i"}}"#),
            [place + "/renamed/i", place + "/renamed/j", place + "/renamed/"]
        ),
    ])
    func `refuses defects with their pointers`(text: String, pointers: [String]) throws {
        let (settings, problems) = try Self.read(text)
        #expect(settings == nil)
        #expect(problems.map(\.pointer) == pointers)
    }

    @Test(arguments: ["", "a", ".", "a.", ".a", "a.b.c", "\"a.b", "a\"b.c", "\"\".a", "\"a\"b.c"])
    func `other texts are no names of tables`(text: String) { #expect(QualifiedName(text) == nil) }

    @Test func `a stored worker state decodes to itself`() throws {
        var state = ReplicationState(slot: "s", system: "7", base: 12, confirmed: "0/1")
        #expect(ReplicationState(state.json) == state)
        (state.database, state.timeline) = (16_384, 1)
        state.refused = 3
        state.lastRefusal = "a \"b\""
        state.lastTruncation = "t"
        let moment = Timestamp(microseconds: 1_795_000_000_000_000)
        state.report = SlotReport(checkedAt: moment, lagBytes: 1, retainedBytes: 2, walStatus: "reserved", safeBytes: 5)
        #expect(ReplicationState(state.json) == state)
        #expect(ReplicationState(Array("{}".utf8)) == nil)
    }
}
