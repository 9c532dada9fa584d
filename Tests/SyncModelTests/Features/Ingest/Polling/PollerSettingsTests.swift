import JSONText
import Testing

@testable import IngestFeature
@testable import SyncModel

/// An operator's settings of a poller.
@Suite struct PollerSettingsTests {
    private func defects(_ text: String) throws -> [String] {
        var report = MemberReport()
        let settings = PollerSettings(try JSONTree(parsing: Array(text.utf8)).root, at: "/settings", &report)
        #expect((settings == nil) == !report.problems.isEmpty)
        return report.problems.map(\.pointer)
    }

    private func with(_ members: String) -> String {
        #"{"path": "/contacts", "mapping": {"rules": [\#(PollSamples.rule)]}, \#(members)}"#
    }

    @Test func `omitted members have their defaults`() throws {
        let settings = try PollSamples.settings("")
        #expect(settings.intervalSeconds == 30 && settings.paging == .none && settings.since == nil)
        #expect(settings.mapping.events?.text == "" && settings.headers.isEmpty && settings.pageSize == nil)
        #expect(try PollSamples.settings().since?.overlapSeconds == 60)
    }

    @Test(arguments: [
        #""paging": {"link": true}, "items": "/data", "headers": {"X-Version": "2", "accept": "application/vnd.a+json"}"#,
        #""paging": {"cursor": {"parameter": "after", "pointer": "/next"}}, "page_size": {"parameter": "n", "value": 9}"#,
        #""paging": {"page": {"parameter": "page", "first": 0}}, "interval_seconds": 86400"#,
        #""updated_since": {"parameter": "s", "form": "text", "from": "^/token"}, "interval_seconds": 5"#,
        #""updated_since": {"parameter": "s", "form": "milliseconds", "from": "/at", "overlap_seconds": 0}"#,
    ])
    func `stored settings decode to themselves`(_ members: String) throws {
        let settings = try PollSamples.settings(members)
        let stored = SourceSettings.poller(settings).json
        #expect(SourceSettings(.poller, stored: stored) == .poller(settings))
        let again = try #require(SourceSettings(.poller, stored: stored))
        #expect(again.json == stored)
    }

    /// The position from which an operator starts a run.
    @Test(arguments: [
        (
            "rfc3339", ["\"2026-11-20T07:00:00Z\"", "\"2026-11-20T07:00:00.5+01:00\""],
            ["\"2026-11-20\"", "12", "\"x\"", "{}"]
        ),
        ("seconds", ["12", "\"12\"", "\"2026-11-20T07:00:00Z\""], ["\"x\"", "-1", "\"2026-11-20\"", "1e300", "[]"]),
        ("milliseconds", ["1795000000000"], ["\"soon\"", "true"]), ("text", ["12", "\"x\""], ["1.5", "\"\"", "[1]"]),
    ])
    func `a run starts from a value like updated_since`(_ form: String, _ good: [String], _ bad: [String]) throws {
        let since = #""updated_since": {"parameter": "s", "form": "\#(form)", "from": "/at"}"#
        let settings = SourceSettings.poller(try PollSamples.settings(since))
        for text in good + bad {
            var report = MemberReport()
            let state = settings.state(from: try JSONTree(parsing: Array(text.utf8)).root, at: "/from", &report)
            #expect((state != nil) == good.contains(text), "\(text)")
            #expect(report.problems.map(\.pointer) == (state == nil ? ["/from"] : []))
            // a worker starts from an accepted value
            let poller = try #require(PollSamples.settings(since).since)
            let stored = try state.flatMap { try JSONTree(parsing: $0).root["since"].flatMap(SinceValue.init(stored:)) }
            #expect((stored?.fitting(poller.form) != nil) == (state != nil), "\(text)")
        }
        var report = MemberReport()
        let without = SourceSettings.poller(try PollSamples.settings(""))
        let zero = try JSONTree(parsing: Array("0".utf8)).root
        #expect(without.state(from: zero, at: "/from", &report) == nil && report.problems.map(\.pointer) == ["/from"])
    }

    @Test(arguments: [
        ("{}", ["/settings/path", "/settings/mapping"]), ("[]", ["/settings"]),
        (#"{"path": "contacts", "mapping": {"rules": []}}"#, ["/settings/path", "/settings/mapping/rules"]),
    ])
    func `names missing members`(_ text: String, _ pointers: [String]) throws {
        #expect(try defects(text) == pointers)
    }

    @Test(arguments: [
        (#""path": "//elsewhere.example/x""#, "/path"), (#""path": "/../admin""#, "/path"),
        (#""path": "/a#b""#, "/path"), (#""path": "https://elsewhere.example/""#, "/path"), (#""path": 1"#, "/path"),
    ])
    func `refuses paths outside the base URL`(_ member: String, _ pointer: String) throws {
        let text = #"{\#(member), "mapping": {"rules": [\#(PollSamples.rule)]}}"#
        #expect(try defects(text) == ["/settings" + pointer])
    }

    @Test(arguments: [
        (#""interval_seconds": 4"#, "/interval_seconds"), (#""interval_seconds": 86401"#, "/interval_seconds"),
        (#""interval_seconds": "30""#, "/interval_seconds"), (#""items": "data""#, "/items"),
        (#""items": "^/data""#, "/items"), (#""every": 30"#, "/every"), (#""headers": []"#, "/headers"),
        (#""headers": {"Authorization": "x"}"#, "/headers/Authorization"),
        (#""headers": {"if-none-match": "x"}"#, "/headers/if-none-match"),
        (#""headers": {"Accept_Encoding": "gzip"}"#, "/headers/Accept_Encoding"),
        (#""headers": {"X-Sluice-User": "x"}"#, "/headers/X-Sluice-User"), (#""headers": {"a": 1}"#, "/headers/a"),
        (#""headers": {"a-b": "1", "A_B": "2"}"#, "/headers/A_B"),
        (#""headers": {"a": "1\u000a"}"#, "/headers/a"),
        (#""paging": {}"#, "/paging"), (#""paging": {"link": false}"#, "/paging/link"),
        (#""paging": {"link": true, "page": {"parameter": "p"}}"#, "/paging"),
        (#""paging": {"cursor": {"parameter": "p"}}"#, "/paging/cursor/pointer"),
        (#""paging": {"cursor": {"parameter": "", "pointer": "/a"}}"#, "/paging/cursor/parameter"),
        (#""paging": {"page": {"parameter": "p", "first": 2}}"#, "/paging/page/first"),
        (#""paging": {"offset": {"parameter": "p"}}"#, "/paging/offset"),
        (#""page_size": {"parameter": "n"}"#, "/page_size/value"),
        (#""page_size": {"parameter": "n", "value": 10001}"#, "/page_size/value"),
        (#""updated_since": {"parameter": "s", "form": "iso", "from": "/a"}"#, "/updated_since/form"),
        (#""updated_since": {"parameter": "s", "form": "text"}"#, "/updated_since/from"),
        (#""updated_since": {"parameter": "s", "form": "text", "from": "a"}"#, "/updated_since/from"),
        (
            #""updated_since": {"parameter": "s", "form": "text", "from": "/a", "overlap_seconds": 1}"#,
            "/updated_since/overlap_seconds"
        ),
        (
            #""updated_since": {"parameter": "s", "form": "rfc3339", "from": "/a", "overlap_seconds": -1}"#,
            "/updated_since/overlap_seconds"
        ),
        (
            #""page_size": {"parameter": "n", "value": 1}, "paging": {"page": {"parameter": "n"}}"#,
            "/page_size/parameter"
        ),
    ])
    func `names each defect by its pointer`(_ members: String, _ pointer: String) throws {
        #expect(try defects(with(members)) == ["/settings" + pointer])
    }

    @Test func `refuses a parameter that the path already has`() throws {
        let text = #"""
            {"path": "/contacts?a=1&per%5Fpage=2", "page_size": {"parameter": "per_page", "value": 10},
             "mapping": {"rules": [\#(PollSamples.rule)]}}
            """#
        #expect(try defects(text) == ["/settings/page_size/parameter"])
    }

    @Test func `a mapping specifies neither its items nor documents outside of them`() throws {
        let rule = #"{"entity_type": "a", "operation": "upsert", "id": "/id", "version": "/v", "document": "^/all"}"#
        let text = #"{"path": "/contacts", "mapping": {"events": "/data", "rules": [\#(rule)]}}"#
        #expect(try defects(text) == ["/settings/mapping/events", "/settings/mapping/rules/0/document"])
    }
}
