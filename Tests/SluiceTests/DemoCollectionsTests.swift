import CommandSupport
import Foundation
import SyncModel
import Synchronization
import Testing

@testable import DemoUpstream

/// The demo's REST API without the network.
@Suite struct DemoCollectionsTests {
    private var api = DemoCollections()

    private mutating func ask(
        _ method: String,
        _ target: String,
        _ body: String = "",
        key: String? = nil,
        ifMatch: String? = nil
    ) -> (status: Int, body: String, etag: String?) {
        let request = DemoRequest(
            method: method,
            target: target,
            idempotencyKey: key,
            ifMatch: ifMatch,
            body: Array(body.utf8)
        )
        let answer = api.answer(request)
        return (answer.status, String(decoding: answer.body ?? [], as: UTF8.self), answer.etag)
    }

    @Test mutating func `creates, returns, updates, replaces and deletes documents`() {
        #expect(
            ask("POST", "/contacts", #"{"id":"x","name":"Kari","age":4e1}"#) == (
                201, #"{"id":1,"name":"Kari","age":4e1}"#, #""1""#
            )
        )
        #expect(ask("POST", "/contacts", "{}") == (201, #"{"id":2}"#, #""1""#))
        #expect(ask("POST", "/api/v1/visits", "{}") == (201, #"{"id":1}"#, #""1""#))
        #expect(
            ask("PATCH", "/contacts/1", #"{"age":null,"tags":[1]}"#) == (
                200, #"{"id":1,"name":"Kari","tags":[1]}"#, #""2""#
            )
        )
        #expect(ask("PUT", "/contacts/1", #"{"name":"Kåre","id":9}"#) == (200, #"{"id":1,"name":"Kåre"}"#, #""3""#))
        #expect(ask("GET", "/contacts/1?fields=all") == (200, #"{"id":1,"name":"Kåre"}"#, #""3""#))
        #expect(ask("GET", "/contacts") == (200, #"[{"id":1,"name":"Kåre"},{"id":2}]"#, #""r4""#))
        #expect(ask("DELETE", "/contacts/1") == (204, "", nil))
        #expect(ask("DELETE", "/contacts/1").status == 404)
        #expect(ask("GET", "/contacts/1").status == 404)
        #expect(ask("POST", "/contacts", "{}").body == #"{"id":3}"#, "an id is never assigned again")
    }

    @Test mutating func `a list returns changes in order and in pages, including deletions`() throws {
        let clock = Mutex(Timestamp(microseconds: 1_795_000_000_000_000))
        api = DemoCollections(now: { clock.withLock { $0 } })
        func get(_ target: String, tag: String? = nil) -> DemoAnswer {
            api.answer(DemoRequest(method: "GET", target: target, ifNoneMatch: tag))
        }
        for name in ["a", "b", "c"] {
            #expect(ask("POST", "/contacts", #"{"name":"\#(name)"}"#).status == 201)
            clock.withLock { $0 = $0.adding(seconds: 1) }
        }
        #expect(ask("PATCH", "/contacts/1", #"{"name":"d"}"#).status == 200)
        clock.withLock { $0 = $0.adding(seconds: 1) }
        #expect(ask("DELETE", "/contacts/2").status == 204)
        let first = get("/contacts?view=changes&limit=2")
        let item = #"{"id":3,"version":1,"updated_at":"2026-11-18T11:06:42.000Z","deleted":false,"document":"#
        #expect(
            String(decoding: first.body ?? [], as: UTF8.self).hasPrefix("[" + item + #"{"id":3,"name":"c"}},{"id":1"#)
        )
        let link = try #require(first.link)
        #expect(link.hasPrefix("</contacts?view=changes&limit=2&after=") && link.hasSuffix(#">; rel="next""#))
        let next = String(link.dropFirst().prefix { $0 != ">" })
        let second = get(next)
        let gone = #"[{"id":2,"version":2,"updated_at":"2026-11-18T11:06:44.000Z","deleted":true}]"#
        #expect(String(decoding: second.body ?? [], as: UTF8.self) == gone && second.link == nil)
        let since = get("/contacts?view=changes&updated_since=2026-11-18T11%3A06%3A44.000Z")
        #expect(String(decoding: since.body ?? [], as: UTF8.self) == gone)
        #expect(ask("GET", "/contacts?limit=1").body == #"[{"id":1,"name":"d"}]"#)
        #expect(get("/contacts?limit=1").link == #"</contacts?limit=1&after=1>; rel="next""#)
        #expect(ask("GET", "/contacts?limit=1&after=1").body == #"[{"id":3,"name":"c"}]"#)
        #expect(get("/contacts", tag: first.etag).status == 304)
        #expect(ask("POST", "/contacts", "{}").status == 201)
        #expect(get("/contacts", tag: first.etag).status == 200)
        for query in ["updated_since=yesterday", "limit=0", "limit=x", "after=x", "after=1-2-3"] {
            #expect(ask("GET", "/contacts?" + query).status == 400, "\(query)")
        }
    }

    @Test mutating func `an event names the document's owner regardless of the editor`() throws {
        let ada = UUID()
        func request(_ method: String, _ target: String, by user: UUID?) -> DemoRequest {
            DemoRequest(method: method, target: target, user: user, body: Array("{}".utf8))
        }
        _ = api.answer(request("POST", "/expenses", by: ada))
        _ = api.answer(request("PATCH", "/expenses/1", by: nil))
        _ = api.answer(request("PUT", "/expenses/1", by: UUID()))
        _ = api.answer(request("DELETE", "/expenses/1", by: nil))
        _ = api.answer(request("POST", "/contacts", by: nil))
        let events = api.takeChanges()
        #expect(events.map(\.owner) == [ada, ada, ada, ada, DemoTenant.forwarded.user])
        #expect(events.map(\.version) == [1, 2, 3, 4, 1])
        #expect(events.map { $0.document == nil } == [false, false, false, true, false])
        let batch = String(decoding: try #require(events.first).batch(), as: UTF8.self)
        #expect(batch.contains(#""owner":"\#(ada.uuidString.lowercased())""#), "\(batch)")
    }

    @Test mutating func `a rejected event is shown with its reason`() throws {
        _ = api.answer(DemoRequest(method: "POST", target: "/expenses", body: Array("{}".utf8)))
        let event = try #require(api.takeChanges().first)
        func line(_ status: Int, _ body: String) -> String {
            DemoWebhook.line(event, status: status, body: Array(body.utf8))
        }
        let error = #"{"detail":"it is not Ada's","errors":[{"pointer":"/owner"}]}"#
        let refused = #"{"results":[{"result":"refused","error":\#(error)}]}"#
        let start = "upstream: notified the gateway of expense 1, version 1 → "
        #expect(line(200, refused) == start + "refused: /owner: it is not Ada's")
        #expect(line(401, #"{"detail":"The token was revoked."}"#) == start + "401: The token was revoked.")
        #expect(line(200, #"{"results":[{"result":"applied","error":null}]}"#) == start + "applied")
        #expect(line(200, #"{"results":[{"result":"echo","error":null}]}"#) == "")
        #expect(line(404, "not JSON") == start + "404")
    }

    @Test mutating func `rejects unsupported requests`() {
        #expect(ask("POST", "/contacts", "{}").status == 201)
        for (method, target, body, status) in [
            ("GET", "/", "", 404), ("GET", "//", "", 404), ("POST", "/contacts/", "{}", 404), ("GET", "/1", "", 200),
            ("PATCH", "/contacts", "{}", 405), ("POST", "/contacts/1", "{}", 405), ("PATCH", "/contacts/9", "{}", 404),
            ("POST", "/contacts", "[]", 400), ("PATCH", "/contacts/1", "x", 400), ("PUT", "/contacts/1", "", 400),
        ] { #expect(ask(method, target, body).status == status, "\(method) \(target)") }
        let long = #"{"a":"\#(String(repeating: "x", count: DemoDocument.maximumBytes - 10))"}"#
        #expect(ask("PATCH", "/contacts/1", long).status == 200)
        #expect(ask("PATCH", "/contacts/1", #"{"b":"0123456789"}"#).status == 413)
    }

    @Test mutating func `answers a stale If-Match with the current document`() {
        _ = ask("POST", "/contacts", #"{"name":"Kari"}"#)
        #expect(ask("PATCH", "/contacts/1", #"{"city":"Oslo"}"#, ifMatch: #""1""#).status == 200)
        for method in ["PATCH", "PUT", "DELETE"] {
            let stale = ask(method, "/contacts/1", #"{"city":"Bergen"}"#, ifMatch: #""1""#)
            #expect(stale == (412, #"{"id":1,"name":"Kari","city":"Oslo"}"#, #""2""#))
        }
        #expect(ask("PATCH", "/contacts/1", "{}", ifMatch: "*").status == 200)
        #expect(ask("DELETE", "/contacts/1", ifMatch: #""3""#).status == 204)
    }

    @Test mutating func `an idempotency key has one effect and one response`() {
        let first = ask("POST", "/contacts", #"{"name":"Kari"}"#, key: "k")
        #expect(ask("POST", "/contacts", #"{"name":"Kari"}"#, key: "k") == first)
        #expect(ask("GET", "/contacts").body == #"[{"id":1,"name":"Kari"}]"#)
        #expect(ask("POST", "/contacts", #"{"name":"Per"}"#, key: "k").status == 422)
        #expect(ask("POST", "/people", #"{"name":"Kari"}"#, key: "k").status == 422)
        #expect(ask("DELETE", "/contacts/1", key: "d").status == 204)
        #expect(ask("DELETE", "/contacts/1", key: "d").status == 204, "a repetition, not a second try")
    }

    @Test mutating func `a document whose title asks for a failure fails once, without an effect`() {
        let body = #"{"title":"fail once"}"#
        #expect(ask("POST", "/visits", body, key: "k").status == 503)
        #expect(ask("GET", "/visits").body == "[]")
        #expect(ask("POST", "/visits", body, key: "k") == (201, #"{"id":1,"title":"fail once"}"#, #""1""#))
        #expect(ask("POST", "/visits", body, key: "k").status == 201)
        #expect(ask("PATCH", "/visits/1", body, key: "l").status == 503)
        #expect(ask("PATCH", "/visits/1", body, key: "l").status == 200)
    }

    @Test mutating func `limits the number of documents`() {
        for _ in 0..<DemoCollections.capacity { #expect(ask("POST", "/contacts", "{}").status == 201) }
        #expect(ask("POST", "/contacts", "{}").status == 507)
        #expect(ask("DELETE", "/contacts/7").status == 204)
        #expect(ask("POST", "/contacts", "{}").status == 201)
    }

    @Test func `a line shows request and response without terminal commands`() {
        let request = DemoRequest(method: "POST", target: "/contacts", body: Array("{\"a\":\"\u{9b}2J\u{1b}\"}".utf8))
        let answer = DemoAnswer(status: 503, remark: "not now")
        #expect(DemoLine.text(request, answer) == #"upstream: POST /contacts → 503 (not now)  {"a":"2J"}"#)
        let long = DemoRequest(method: "GET", target: "/" + String(repeating: "a", count: 500))
        #expect(DemoLine.text(long, DemoAnswer(status: 200)).count < 160)
    }
}
