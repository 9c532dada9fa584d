import Foundation
import JSONText
import Testing

@testable import SyncModel

/// The id in the answer to a create, in the forms of real upstreams.
@Suite struct UpstreamAnswerTests {
    private func outcome(
        _ status: Int = 201,
        _ json: String? = nil,
        location: String? = nil,
        base: String = "https://api.example/v1",
        endpoint: String = "/contacts"
    ) throws -> Outcome {
        var sample = Sample()
        sample.upstream = UpstreamSettings(baseURL: base)
        sample.endpoint = endpoint
        return try #require(sample.outcome(status, json, location: location))
    }

    // MARK: - 202

    @Test(arguments: [nil, #"{"id":991,"status":"queued"}"#], [nil, "/jobs/991", "/v1/contacts/991"])
    func `a 202 contains no entity`(_ json: String?, _ location: String?) throws {
        let outcome = try outcome(202, json, location: location)
        #expect(outcome.status == .failed && outcome.code == "upstream_answer_unusable")
        #expect(outcome.serverID == nil && outcome.responseStatus == 202)
        #expect(outcome.detail?.contains("202 means that the create was accepted") == true)
    }

    @Test func `a 202 to an update does not change the document and the ETag`() throws {
        let accepted = try #require(Sample.of(.update).outcome(202, #"{"id":7,"job":true}"#, etag: "\"1\""))
        #expect(accepted.status == .succeeded && accepted.patch == #"{"name":"Kari"}"#)
        #expect(accepted.document == nil && accepted.etag == nil)
    }

    @Test func `a 202 to a create under the client's id uses that id`() throws {
        var sample = Sample()
        sample.serverID = ServerID(text: "7", isInteger: true)
        sample.idSpace = .shared
        sample.client = nil
        let accepted = try #require(sample.outcome(202, #"{"id":991}"#))
        #expect(accepted.status == .succeeded && accepted.serverID?.text == "7")
    }

    // MARK: - Location

    @Test(arguments: [
        ("https://api.example/v1/contacts/77", "77"), ("https://API.Example:443/v1/contacts/77", "77"),
        ("http://api.example/v1/contacts/77", "77"), ("https://api.example./v1/contacts/77/", "77"),
        ("https://user:pw@api.example/v1/contacts/77", "77"),
        ("/v1/contacts/77", "77"), ("/contacts/77", "77"), ("/V1/Contacts/77", "77"),
        ("//api.example/v1/contacts/77", "77"),
        ("/v1/contacts/77?expand=all#top", "77"), ("/v1//contacts//77//", "77"), ("/v1/jobs/../contacts/77", "77"),
        ("/v1/contacts/a%20b", "a b"), ("/v1/%63ontacts/77", "77"), ("77", "77"), ("./77", "77"), ("contacts/77", "77"),
        (" /v1/contacts/77 ", "77"), ("/v1/contacts/Smith(2)", "Smith(2)"),
    ])
    func `a Location in the request's collection names the entity`(_ location: String, _ id: String) throws {
        #expect(try outcome(location: location).serverID?.text == id)
    }

    @Test(arguments: [
        "/v1/jobs/991", "/jobs/991", "https://jobs.example/v1/contacts/77", "https://api.example:8443/v1/contacts/77",
        "/v2/contacts/77", "/other/contacts/77", "/v1/contacts/77/status", "/v1/contacts-import/77",
        "/v1/contacts/%2e%2e/jobs/991", "/v1/contacts/../jobs/991", "https://api.example@evil.example/v1/contacts/77",
        "https://api.example\\@evil.example/v1/contacts/77", "urn:uuid:9f0c", "ftp://api.example/v1/contacts/77",
        "https:/v1/contacts/77", "javascript:77",
    ])
    func `a Location elsewhere names no entity`(_ location: String) throws {
        let outcome = try outcome(location: location)
        #expect(outcome.status == .failed && outcome.serverID == nil, "\(outcome.serverID?.text ?? "-")")
        #expect(outcome.code == "upstream_answer_unusable")
        #expect(outcome.detail?.contains("Location does not point to an entity") == true, "\(outcome.detail ?? "-")")
    }

    /// U+FFFD replaces bytes that were not UTF-8.
    @Test(arguments: [
        "/v1/contacts/%ff", "/v1/contacts/caf%E9", "/v1/contacts/caf\u{fffd}", "caf\u{fffd}", "/v1/jobs/%E9",
        "https://api.example/v1/contacts/caf\u{fffd}",
    ])
    func `a Location that is not UTF-8 names no entity`(_ location: String) throws {
        let outcome = try outcome(location: location)
        #expect(outcome.status == .failed && outcome.serverID == nil && outcome.code == "upstream_answer_unusable")
        #expect(outcome.detail?.contains("Location is not valid UTF-8") == true, "\(outcome.detail ?? "-")")
    }

    @Test func `an OData key after the collection's own name is the id`() throws {
        for location in ["/v1/contacts/Contacts(77)", "/v1/contacts(77)", "/v1/contacts/contacts('77')"] {
            #expect(try outcome(location: location).serverID?.text == "77", "\(location)")
        }
    }

    @Test(arguments: ["/v1/contacts", "/v1/contacts/", "/v1/contacts?id=77", "https://api.example/v1/contacts#77"])
    func `a Location of the collection itself names no entity`(_ location: String) throws {
        let outcome = try outcome(location: location)
        #expect(outcome.status == .failed && outcome.detail?.contains("Location has no id") == true)
    }

    @Test func `a Location may omit the parent of an item`() throws {
        let endpoint = "/lists/5/items"
        for location in ["/v1/lists/5/items/77", "/v1/items/77", "/items/77"] {
            #expect(try outcome(location: location, endpoint: endpoint).serverID?.text == "77", "\(location)")
        }
        for location in ["/v1/lists/6/items/77", "/v1/lists/77", "/jobs/items/77"] {
            #expect(try outcome(location: location, endpoint: endpoint).serverID == nil, "\(location)")
        }
    }

    @Test func `the client's id at the end of the path is no part of the collection`() throws {
        let made = try outcome(location: "/v1/contacts/77", endpoint: "/contacts/{local_id}")
        #expect(made.serverID?.text == "77")
    }

    // MARK: - OData

    @Test(arguments: [
        ("Contacts(77)", "77", true), ("Contacts('abc')", "abc", false), ("contacts('77')", "77", false),
        ("Contacts('O''Neil')", "O'Neil", false), ("Contacts(%27a%20b%27)", "a b", false),
        ("Contacts(77L)", "77", true),
        ("Contacts(id=77)", "77", true), ("Contacts(name='a=b,c')", "a=b,c", false),
        ("Contacts(9F0C0000-0000-4000-8000-00000000000F)", "9f0c0000-0000-4000-8000-00000000000f", false),
        ("Contacts(guid'9F0C0000-0000-4000-8000-00000000000F')", "9f0c0000-0000-4000-8000-00000000000f", false),
        ("Contacts(18446744073709551616)", "18446744073709551616", true),
    ])
    func `a key of OData is the id`(_ segment: String, _ text: String, _ isInteger: Bool) throws {
        for prefix in ["https://api.example/v1/", "/v1/", "/", ""] {
            let made = try outcome(location: prefix + segment, endpoint: "/Contacts")
            #expect(made.serverID == ServerID(text: text, isInteger: isInteger), "\(prefix)")
        }
    }

    @Test(arguments: [
        "Contacts(a=1,b=2)", "Contacts()", "Contacts('')", "Contacts('a'b')", "Jobs(77)", "Contacts(77)/Jobs",
        "Contacts(77)(78)", "Contacts((77))", "Contacts(null)", "Contacts(id=null)",
    ])
    func `other forms of OData name no entity`(_ segment: String) throws {
        #expect(try outcome(location: "/v1/" + segment, endpoint: "/Contacts").serverID == nil)
    }

    @Test func `a request by a key of OData refers to its entity`() throws {
        for (id, path) in [
            (ServerID(text: "77", isInteger: true), "/Contacts(77)"),
            (ServerID(text: "abc", isInteger: false), "/Contacts('abc')"),
            (ServerID(text: "abc", isInteger: false), "/Contacts(%27abc%27)/Details"),
        ] {
            #expect(id.isSegment(of: path), "\(path)")
        }
        #expect(!ServerID(text: "77", isInteger: true).isSegment(of: "/Contacts(78)"))
        #expect(!ServerID(text: "Contacts", isInteger: false).isSegment(of: "/Contacts(77)"))
    }

    // MARK: - Integer ids of any size

    private static let integers = [
        "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
        "-9223372036854775809", "340282366920938463463374607431768211456", String(repeating: "9", count: 200),
    ]

    @Test(arguments: integers) func `an integer id keeps its digits`(_ digits: String) throws {
        let shown = try outcome(201, #"{"id":\#(digits),"n":1}"#)
        #expect(shown.status == .succeeded && shown.serverID == ServerID(text: digits, isInteger: true))
        #expect(try outcome(location: "/v1/contacts/" + digits).serverID == shown.serverID)
        let id = try #require(shown.serverID)
        var writer = JSONWriter()
        writer.value(id)
        #expect(String(decoding: writer.bytes, as: UTF8.self) == digits)
        let document = try JSONTree(parsing: Array(#"{"ref":"00000000-0000-4000-8000-000000000001"}"#.utf8)).root
        let rewritten = try #require(document.rewritten { _ in id.replacement })
        #expect(String(decoding: rewritten, as: UTF8.self) == #"{"ref":\#(digits)}"#)
    }

    // MARK: - Causes

    @Test(arguments: [
        (#"{"id":null}"#, "has null at /id"), (#"{"id":true}"#, "has a boolean at /id"),
        (#"{"id":{}}"#, "has an object at /id"), (#"{"id":[1]}"#, "has an array at /id"),
        (#"{"id":7.5}"#, "has a number at /id"), (#"{"id":1.8446744073709552e19}"#, "has a number at /id"),
        (#"{"id":""}"#, "has a text at /id that is empty"), (#"{"name":"x"}"#, "is JSON that has no value at /id"),
        (#"[{"id":7}]"#, "is an array that has no value at /id"), ("", "is empty"),
    ])
    func `the error names the defect of the id`(_ json: String, _ cause: String) throws {
        let outcome = try outcome(201, json.isEmpty ? nil : json)
        #expect(outcome.code == "upstream_answer_unusable" && outcome.detail?.contains("the body \(cause)") == true)
        #expect(outcome.detail?.contains("Location is missing") == true)
        #expect(outcome.detail?.contains("refused") == false, "\(outcome.detail ?? "-")")
    }

    @Test(arguments: [#""\ud800""#, #""\u0000""#, "1e999999999"])
    func `the stored body is null in place of a body that cannot be stored`(_ value: String) throws {
        let response = UpstreamResponse(status: 201, unkeptJSON: Array(#"{"id":7,"other":\#(value)}"#.utf8))
        let outcome = try #require(Sample().outcome(.response(response)))
        #expect(outcome.status == .succeeded && outcome.serverID?.text == "7")
        #expect(outcome.responseBody == Array("null".utf8))
    }

    @Test(arguments: [
        (#"{"id":7,"id":8}"#, "a duplicate member"), (#"{"id":"\ud800"}"#, "an invalid text"),
        (#"{"id":"\u0000"}"#, "an invalid text"), (#"{"id":1e999999999}"#, "a number with too many digits"),
    ]) func `the error names the defect of an id that cannot be stored`(_ json: String, _ cause: String) throws {
        let response = UpstreamResponse(status: 201, unkeptJSON: Array(json.utf8))
        let outcome = try #require(Sample().outcome(.response(response)))
        #expect(outcome.detail?.contains("the body has \(cause) at /id") == true, "\(outcome.detail ?? "-")")
    }

    @Test(
        arguments: [
            ("<!DOCTYPE html><html>Sign in</html>", nil, "is HTML, not JSON"),
            ("<?xml version='1.0'?><a/>", nil, "is XML"),
            ("{\"id\":", nil, "is not JSON"), ("\u{1f}\u{8b}", "gzip", "is compressed (gzip)"),
            ("x", "deflate", "is compressed (deflate)"), ("x", "identity", "is not JSON"),
            ("x", "identity, br", "(br)"),
        ] as [(String, String?, String)]
    )
    func `the error names the cause of an unusable body`(_ text: String, _ encoding: String?, _ cause: String) throws {
        let bytes = Array(text.utf8)
        let body = UnusableBody(bytes, encoding: encoding, error: nil)
        #expect(body.reason.contains(cause), "\(body.reason)")
        let response = UpstreamResponse(status: 201, unusableBody: body)
        let outcome = try #require(Sample().outcome(.response(response)))
        #expect(outcome.code == "upstream_answer_unusable" && outcome.detail?.contains(cause) == true)
    }

    @Test func `the error names bytes that are not UTF-8`() {
        #expect(UnusableBody([0x1f, 0x8b, 8, 0], encoding: nil, error: nil).reason.contains("gzip"))
        #expect(UnusableBody([0xff, 0xfe, 0x7b, 0], encoding: nil, error: nil).reason.contains("UTF-16"))
        #expect(UnusableBody([0x7b, 0, 0x22, 0], encoding: nil, error: nil).reason.contains("UTF-16"))
        #expect(UnusableBody([0x7b, 0xe6], encoding: nil, error: nil).reason.contains("UTF-8"))
        #expect(UnusableBody.tooLong(limit: 1_048_576).reason == "is longer than 1048576 bytes")
    }

    @Test(arguments: [
        ("<html>\u{0}\u{202e}æ", "<html>··æ"),
        ("{'token': 'abc'}", "{'token[…]"), ("Authorization: Basic YWxhZGRpbjpvcGVu", "Authorization[…]"),
        ("<a href=//me:pw@host/>", "<a […]>"), ("id 0123456789abcdef0123456789abcdef ok", "id […] ok"),
    ])
    func `an excerpt is printable and without secrets`(_ text: String, _ excerpt: String) {
        let found = PrintableExcerpt.of(Array(text.utf8))
        #expect(found == excerpt, "\(found)")
        #expect(PrintableExcerpt.of(Array(String(repeating: "ab ", count: 1_000).utf8)).utf8.count <= 240)
    }

    /// Some gateways in front of APIs, and some batches, put a body of another format into a JSON string.
    @Test(arguments: [
        ("<html>Sign in</html>", "contains HTML or XML", "<html>Sign in</html>"),
        ("{\"id\":7}", "contains JSON", "{\"id\":7}"),
        ("eyJpZCI6N30", "contains base64", "{\"id\":7}"), ("eyJpZCI6N30=", "contains base64", "{\"id\":7}"),
        ("unauthorized", "not an object", "unauthorized"), ("7", "not an object", "7"),
    ])
    func `the error names the content of a body that is a JSON string`(
        _ text: String,
        _ cause: String,
        _ excerpt: String
    ) throws {
        var writer = JSONWriter()
        writer.string(text)
        let outcome = try outcome(201, String(decoding: writer.bytes, as: UTF8.self))
        #expect(outcome.code == "upstream_answer_unusable" && outcome.serverID == nil)
        let detail = try #require(outcome.detail)
        #expect(detail.contains("the body is a JSON string") && detail.contains(cause), "\(detail)")
        #expect(detail.hasSuffix("The body begins with: \(excerpt)"), "\(detail)")
    }

    @Test func `operators do not see the first bytes`() throws {
        let body = UnusableBody(Array("<html>Kari Nordmann".utf8), encoding: nil, error: nil)
        let outcome = try #require(Sample().outcome(.response(UpstreamResponse(status: 201, unusableBody: body))))
        #expect(outcome.detail?.contains("begins with: <html>Kari") == true)
        #expect(outcome.lastError?.contains("begins with: <html>Kari") == true)
        let problem = try JSONTree(parsing: #require(outcome.error)).root
        let redacted = try #require(RedactedProblem(of: problem).detail)
        #expect(!redacted.contains("Kari") && redacted.contains("is HTML, not JSON"))
    }

    // MARK: - Weak ETags

    @Test(arguments: [false, true], [#"W/"1""#, #""1""#])
    func `a weak ETag is sent as If-Match only if the upstream accepts it`(_ accepts: Bool, _ etag: String) throws {
        var sample = Sample.of(.update)
        sample.upstream?.sendsWeakETags = accepts
        sample.baseVersion = 1
        sample.entity = EntityState(
            isIntegerID: true,
            version: 1,
            isDeleted: false,
            document: Array("{}".utf8),
            owner: Sample.lane.user,
            clientID: nil,
            lastWriter: Sample.writer,
            runBase: 0
        )
        sample.entity?.isStored = true
        sample.entity?.etag = etag
        let isSent = accepts || !etag.hasPrefix("W/")
        #expect(try #require(sample.request).ifMatch == (isSent ? etag : nil))
        sample.baseVersion = nil
        sample.headers = #"{"If-Match":"\"own\""}"#
        #expect(try #require(sample.request).ifMatch == (isSent ? etag : nil))
    }
}
