import Foundation
import JSONText
import TestSupport
import Testing

@testable import IngestFeature
@testable import SyncModel

/// A poller's requests, and the results of the answers.
@Suite struct PollPlannerTests {
    private let now = PollSamples.now

    private func later(_ seconds: Double) -> Timestamp { now.adding(seconds: seconds) }

    private func list(_ items: String...) -> String { "[\(items.joined(separator: ","))]" }

    // MARK: - Since

    @Test func `the first pass requests everything, the next only items newer than the last ones`() throws {
        let planner = try PollSamples.planner()
        #expect(planner.request(PollState()).path == "/contacts")
        let items = list(
            PollSamples.item(1, at: later(-500)),
            PollSamples.item(2, at: later(-100)),
            PollSamples.item(3, at: later(-300))
        )
        let state = try #require(try planner.step(PollSamples.answer(items), PollState()).done)
        let since = later(-160).rfc3339.replacing(":", with: "%3A")
        #expect(planner.request(state).path == "/contacts?since=" + since)
        // older items do not move the position back
        let older = list(PollSamples.item(1, at: later(-9_000)))
        #expect(try planner.step(PollSamples.answer(older), state).done?.since == state.since)
        #expect(try planner.step(PollSamples.answer("[]"), state).done?.since == state.since)
    }

    @Test func `ignores a byte order mark before a page`() throws {
        let planner = try PollSamples.planner()
        let items = list(PollSamples.item(1, at: later(-100)))
        let state = try #require(try planner.step(PollSamples.answer("\u{feff}" + items), PollState()).done)
        #expect(state.since == (try planner.step(PollSamples.answer(items), PollState()).done?.since))
    }

    @Test func `times in the future do not move the position past now`() throws {
        let planner = try PollSamples.planner()
        let items = list(PollSamples.item(1, at: later(86_400 * 365)), PollSamples.item(2, at: later(-100)))
        #expect(try planner.step(PollSamples.answer(items), PollState()).done?.since == .time(now))
    }

    @Test(arguments: [
        ("seconds", #"1795000000"#, "1794999940"), ("seconds", #"1795000000.9"#, "1794999940"),
        ("seconds", #""1795000000""#, "1794999940"), ("seconds", #""2026-11-18T08:26:40Z""#, "1794990340"),
        ("milliseconds", "1795000000000", "1794999940000"),
        ("rfc3339", #""2026-11-18T09:26:40.5+01:00""#, "2026-11-18T08%3A25%3A40.500Z"),
    ])
    func `reads and sends times in the API's form`(_ form: String, _ value: String, _ parameter: String) throws {
        let planner = try PollSamples.planner(
            #""updated_since": {"parameter": "s", "form": "\#(form)", "from": "/at"}"#
        )
        let state = try #require(try planner.step(PollSamples.answer(#"[{"at": \#(value)}]"#), PollState()).done)
        #expect(planner.request(state).path == "/contacts?s=" + parameter)
    }

    @Test(arguments: ["null", "true", "{}", #""yesterday""#, "-5", "1e400", "99999999999999", #""""#])
    func `ignores an invalid time and warns of it`(_ value: String) throws {
        let planner = try PollSamples.planner(
            #""updated_since": {"parameter": "s", "form": "seconds", "from": "/at"}"#
        )
        let state = try #require(try planner.step(PollSamples.answer(#"[{"at": \#(value)}]"#), PollState()).done)
        #expect(state.since == nil && planner.request(state).path == "/contacts")
        #expect(state.warning(at: now)?.contains("'/at'") == true)
        #expect(state.warning(at: later(90_000)) == nil)
    }

    @Test func `sends the greatest of an API's own texts and numbers back unchanged`() throws {
        let planner = try PollSamples.planner(#""updated_since": {"parameter": "s", "form": "text", "from": "/n"}"#)
        let numbers = try planner.step(PollSamples.answer(#"[{"n":9},{"n":10},{"n":2}]"#), PollState()).done
        #expect(planner.request(try #require(numbers)).path == "/contacts?s=10")
        let texts = try planner.step(PollSamples.answer(#"[{"n":"a&b"},{"n":"a"}]"#), PollState()).done
        #expect(planner.request(try #require(texts)).path == "/contacts?s=a%26b")
        // if the text is a token of the page, the last token is sent, not the greatest
        let tokens = try PollSamples.planner(
            #""updated_since": {"parameter": "s", "form": "text", "from": "^/t"}, "items": "/d""#
        )
        let first = try #require(try tokens.step(PollSamples.answer(#"{"t":"z","d":[]}"#), PollState()).done)
        let second = try #require(try tokens.step(PollSamples.answer(#"{"t":"b","d":[]}"#), first).done)
        #expect(tokens.request(second).path == "/contacts?s=b")
    }

    @Test func `an expired token causes one full read`() throws {
        let planner = try PollSamples.planner(#""updated_since": {"parameter": "s", "form": "text", "from": "/n"}"#)
        let failure = try planner.failure(PollSamples.answer("", status: 410), PollState(since: .text("old")))
        #expect(failure.state?.since == nil && failure.state != nil)
        #expect(try planner.failure(PollSamples.answer("", status: 410)).state == nil)
    }

    @Test func `starts at the operator's position`() throws {
        let planner = try PollSamples.planner()
        var report = MemberReport()
        let value = try JSONTree(parsing: Array(#""2026-01-02T00:00:00Z""#.utf8)).root
        let stored = SourceSettings.poller(planner.settings).state(from: value, at: "", &report)
        #expect(planner.request(planner.state(stored: stored)).path == "/contacts?since=2026-01-01T23%3A59%3A00.000Z")
        #expect(planner.state(stored: Array(#"{"since": "17"}"#.utf8)).since == nil, "this is no time")
    }

    // MARK: - Unchanged lists

    @Test func `requests a known list by its tag, unless the request changes`() throws {
        let planner = try PollSamples.planner("")
        var response = PollSamples.answer(list(PollSamples.item(1)), etag: #""a""#)
        response.lastModified = "Wed, 18 Nov 2026 08:00:00 GMT"
        let state = try #require(try planner.step(response, PollState()).done)
        let request = planner.request(state)
        #expect(request.etag == #""a""# && request.lastModified == response.lastModified)
        guard case .unchanged(state) = planner.reading(PollSamples.answer("", status: 304), to: request, in: state)
        else {
            Issue.record("304 was not taken as no change")
            return
        }
        let stored = planner.stored(state)
        #expect(planner.state(stored: stored) == state)
        for other in [
            try PollSamples.planner("", path: "/people"), try PollSamples.planner("", base: "https://other.example"),
            try PollSamples.planner(#""headers": {"a": "b"}"#),
        ] {
            #expect(!other.request(other.state(stored: stored)).isConditional)
        }
        #expect(throws: Unexpected.self) { try planner.step(PollSamples.answer("", status: 304), PollState()) }
    }

    @Test func `requests a list of several pages, and a list with refused items, unconditionally`() throws {
        let planner = try PollSamples.planner(#""paging": {"link": true}"#)
        let first = PollSamples.answer(
            list(PollSamples.item(1)),
            etag: #""a""#,
            links: [#"</v1/contacts?page=2>; rel="next""#]
        )
        let more = try #require(try planner.step(first, PollState()).more)
        #expect(!planner.request(more).isConditional && planner.request(more).path == "/contacts?page=2")
        let done = try #require(
            try planner.step(PollSamples.answer(list(PollSamples.item(2)), etag: #""b""#), more).done
        )
        #expect(!planner.request(done).isConditional)
        var tally = PollTally()
        tally.record(
            .refused,
            Problem(.validationFailed, pointer: "/0/id", rule: Rule.serverID, "id must be\u{1b} one")
        )
        let single = PollSamples.answer(list(PollSamples.item(1)), etag: #""a""#)
        let refused = try #require(try planner.step(single, PollState(), tally).done)
        #expect(!planner.request(refused).isConditional)
        let warning = try #require(refused.warning(at: now))
        #expect(warning.contains("an item was rejected (at '/0/id'): id must be  one"), "\(warning)")
    }

    // MARK: - Pages

    @Test func `follows cursors until the last page`() throws {
        let planner = try PollSamples.planner(
            PollSamples.since
                + #","items":"/d","paging":{"cursor":{"parameter":"c","pointer":"/m/next"}},"page_size":{"parameter":"n","value":2}"#
        )
        func page(_ cursor: String, _ items: String...) -> FetchedResponse {
            PollSamples.answer(#"{"d":[\#(items.joined(separator: ","))],"m":{"next":\#(cursor)}}"#)
        }
        #expect(planner.request(PollState()).path == "/contacts?n=2")
        let first = try #require(
            try planner.step(page(#""a b""#, PollSamples.item(1, at: later(-5))), PollState()).more
        )
        #expect(planner.request(first).path == "/contacts?n=2&c=a%20b")
        let second = try #require(try planner.step(page("7", PollSamples.item(2, at: later(-50))), first).more)
        #expect(planner.request(second).path == "/contacts?n=2&c=7")
        for cursor in ["18446744073709551617", "-9223372036854775809"] {
            let next = try planner.step(page(cursor, PollSamples.item(2)), first).more
            #expect(try planner.request(#require(next)).path == "/contacts?n=2&c=\(cursor)")
        }
        #expect(second.since == nil, "only the end of a pass advances the position")
        for end in ["null", "false", #""""#] {
            #expect(try planner.step(page(end), second).done?.since == .time(later(-5)))
        }
        #expect(try planner.step(page("7"), second).done != nil, "an empty page that names itself is the end")
        for bad in ["{}", "true", "1.5", #""a\u0000""#, "\"" + String(repeating: "x", count: 5_000) + "\""] {
            #expect(try planner.step(page(bad, PollSamples.item(2)), second).failure?.state?.isInPass == false)
        }
    }

    @Test func `numbered pages end with an empty page or with 404`() throws {
        let planner = try PollSamples.planner(#""paging": {"page": {"parameter": "p"}}"#)
        #expect(planner.request(PollState()).path == "/contacts?p=1")
        let second = try #require(
            try planner.step(PollSamples.answer(list(PollSamples.item(1))), PollState()).more
        )
        #expect(planner.request(second).path == "/contacts?p=2")
        #expect(try planner.step(PollSamples.answer("[]"), second).done != nil)
        #expect(try planner.step(PollSamples.answer("{}", status: 404), second).done != nil)
        #expect(try planner.failure(PollSamples.answer("{}", status: 404)).reason == "the upstream answered 404")
        let repeated = try planner.failure(PollSamples.answer(#"{"items":[{"id":1,"id":2}]}"#)).reason
        #expect(repeated == "the response has more than one member '/items/0/id'")
    }

    @Test func `applies the page but does not follow a link that leads elsewhere`() throws {
        let planner = try PollSamples.planner(#""paging": {"link": true}"#)
        let response = PollSamples.answer(
            list(PollSamples.item(1)),
            links: [#"<https://elsewhere.example/v1/contacts?page=2>; rel="next""#]
        )
        let failure = try #require(try planner.step(response, PollState()).failure)
        #expect(
            failure.reason == "the next page is at another origin (https://elsewhere.example), which is not followed"
        )
    }

    @Test(arguments: 1...40)
    func `stops at cursors that repeat`(_ length: Int) throws {
        let planner = try PollSamples.planner(#""items":"/d","paging":{"cursor":{"parameter":"c","pointer":"/next"}}"#)
        var state = PollState()
        let lead = length % 7
        for number in 0..<1_000 {
            let cursor = number < lead ? number : lead + (number - lead) % length
            // the items differ each time, and only the cursor repeats
            let body = #"{"d":[\#(PollSamples.item(number))],"next":"c\#(cursor)"}"#
            switch try planner.step(PollSamples.answer(body), planner.state(stored: planner.stored(state))) {
            case .more(let next): state = next
            case .failed(let failure):
                #expect(failure.reason.hasPrefix("the pages form a cycle"))
                #expect(failure.state?.isInPass == false && number < 4 * (length + lead) + 4)
                return
            case .done: Issue.record("there is no end")
            }
        }
        Issue.record("it continued without an end")
    }

    @Test func `stops at pages that repeat, with any numbering`() throws {
        let planner = try PollSamples.planner(#""paging": {"page": {"parameter": "p"}}"#)
        let same = PollSamples.answer(list(PollSamples.item(1)))
        let second = try #require(try planner.step(same, PollState()).more)
        let failure = try #require(try planner.step(same, second).failure)
        #expect(failure.reason == "the pages repeat: page 2 has the items of an earlier page")
    }

    @Test func `stops an endless list at the page limit`() throws {
        let planner = try PollSamples.planner(#""paging": {"page": {"parameter": "p"}}"#)
        var state = try #require(try planner.step(PollSamples.answer(list(PollSamples.item(0))), PollState()).more)
        state.pass?.pages = PollPlanner.passPages - 1
        let failure = try planner.step(PollSamples.answer(list(PollSamples.item(1))), state).failure
        #expect(failure?.reason == "the list did not end after 100000 pages" && failure?.state?.isInPass == false)
    }

    @Test func `an interrupted pass resumes at its page, unless the page is gone`() throws {
        let planner = try PollSamples.planner(#""paging": {"link": true}"#)
        let link = [#"<?page=2>; rel="next""#]
        let more = try #require(
            try planner.step(PollSamples.answer(list(PollSamples.item(1)), links: link), PollState()).more
        )
        let again = planner.state(stored: planner.stored(more))
        #expect(again == more && planner.request(again).path == "/contacts?page=2")
        for status in [500, 502, 429, 401, 403, 302] {
            #expect(try planner.failure(PollSamples.answer("", status: status), again).state == nil, "\(status)")
        }
        for status in [400, 404, 410, 422] {
            #expect(try planner.failure(PollSamples.answer("", status: status), again).state?.isInPass == false)
        }
        #expect(again.afterFailures(4) == nil && again.afterFailures(5)?.isInPass == false)
        #expect(PollState().afterFailures(50) == nil)
    }

    // MARK: - Invalid lists

    @Test(arguments: [
        ("<html>", "the response is not JSON but text/html"), ("", "the response is not JSON"),
        ("{}", "the response is not an array"),
        (#""x""#, "the response is not an array of items"), ("[1", "the response is not JSON"),
    ])
    func `an error describes an answer that is no list`(_ body: String, _ reason: String) throws {
        var response = PollSamples.answer(body)
        response.contentType = "text/html"
        #expect(try PollSamples.planner().failure(response).reason.hasPrefix(reason))
        let deep = try PollSamples.planner(#""items": "/data/list""#)
        #expect(try deep.failure(PollSamples.answer(#"{"data":{"list":{}}}"#)).reason.contains("'/data/list'"))
    }

    @Test(arguments: [(nil, [0x1f, 0x8b, 8, 0], "gzip"), ("br", [0x0b, 0x02], "br")] as [(String?, [UInt8], String)])
    func `an error names the compression of an answer`(_ encoding: String?, _ body: [UInt8], _ name: String) throws {
        var response = PollSamples.answer("")
        response.body = body
        response.contentEncoding = encoding
        let reason = try PollSamples.planner().failure(response).reason
        #expect(reason.hasPrefix("the response is compressed (\(name))"), "\(reason)")
    }

    @Test func `refuses answers that are too long, and pages with too many items`() throws {
        let planner = try PollSamples.planner()
        var response = PollSamples.answer("")
        response.body = nil
        #expect(try planner.failure(response).reason.hasPrefix("the response is longer than 4194304 bytes"))
        let many = "[" + [String](repeating: "1", count: 10_001).joined(separator: ",") + "]"
        #expect(try planner.failure(PollSamples.answer(many)).reason == "a page has more than 10000 items")
    }

    @Test func `an error contains the upstream's status, and Retry-After delays the next request`() throws {
        let planner = try PollSamples.planner()
        var response = FetchedResponse(status: 429)
        response.retryAt = later(120)
        let failure = try planner.failure(response)
        #expect(failure.reason == "the upstream answered 429" && failure.retryAt == later(120))
        response = FetchedResponse(status: 302, location: "https://u:p@login.example/?secret=1")
        #expect(
            try planner.failure(response).reason
                == "the upstream answered 302, a redirect, which is not followed (Location: https://login.example/)"
        )
        #expect(try planner.failure(FetchedResponse(status: 401, challenge: "Bearer")).reason.contains("Bearer"))
    }

    // MARK: - Pauses

    @Test func `a failing poller backs off, and waits at least as long as requested`() throws {
        let settings = try PollSamples.settings(#""interval_seconds": 5"#)
        func pause(_ failures: Int, _ settings: PollerSettings, until: Timestamp? = nil, jitter: Double = 0) -> Double {
            let moment = PollSchedule.retry(settings, after: failures, now: now, notBefore: until, jitter: jitter)
            return Double(moment.microseconds - now.microseconds) / 1_000_000
        }
        #expect((1...5).map { pause($0, settings) } == [5, 10, 20, 40, 80])
        #expect(
            pause(9, settings) == 900 && pause(1_000_000, settings) == 900 && pause(9, settings, jitter: 1) == 1_080
        )
        let daily = try PollSamples.settings(#""interval_seconds": 86400"#)
        #expect(pause(1, daily) == 30 && pause(20, daily) == 900)
        #expect(pause(1, settings, until: later(3_600)) == 3_600 && pause(9, settings, until: later(1)) == 900)
    }
}
