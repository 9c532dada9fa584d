import JSONText
import TestSupport
import Testing

@testable import SyncModel

@Suite struct PathTemplateTests {
    private static func path(_ template: String, id: ServerID? = ServerID(7), _ payload: String = "{}") -> String? {
        let root = try? JSONTree(parsing: Array(payload.utf8)).root
        return try? PathTemplate(template).path(id: id, payload: root)
    }

    private static func problem(_ template: String) -> String? {
        do throws(Endpoint.Malformed) {
            _ = try PathTemplate(template)
            return nil
        } catch {
            return error.reason
        }
    }

    @Test func `replaces the id and members of the payload, percent-encoded`() {
        #expect(Self.path("/contacts/{id}") == "/contacts/7")
        #expect(Self.path("/lists/{/list~1id}/items", #"{"list/id":"a b/c"}"#) == "/lists/a%20b%2Fc/items")
        #expect(Self.path("/v{/version}/x?q={/q}&r=1", #"{"version":2,"q":"a&b=c"}"#) == "/v2/x?q=a%26b%3Dc&r=1")
        #expect(Self.path("/a/{/deep/0/id}", #"{"deep":[{"id":-3}]}"#) == "/a/-3")
        #expect(Self.path("/contacts") == "/contacts")
    }

    @Test(arguments: [
        ("contacts", "must start with one '/', without scheme or host"), ("//contacts", "'//' names a host"),
        ("/a/../b", "'.' or '..'"), ("/a/{id", "without a '}'"), ("/a/}", "without a '{'"), ("/a/{name}", "use {id}"),
        ("/a/{/x~2}", "use {id}"), ("/a/{local_id}", "use {id}"), ("/a/%2{id}", "hex digits"), ("/a b", "space"),
        ("/a#b", "fragment"), ("/a/{}", "use {id}"), ("/a\\b", "backslash"),
    ]) func `refuses a template that could leave the base URL, or has unknown parts`(
        _ template: String,
        _ words: String
    ) {
        #expect(Self.problem(template)?.contains(words) == true, "\(template): \(Self.problem(template) ?? "accepted")")
    }

    @Test func `refuses values that are missing, empty, too long or of another type`() {
        for payload in [
            "{}", #"{"x":""}"#, #"{"x":null}"#, #"{"x":true}"#, #"{"x":{}}"#, #"{"x":1.5}"#,
            #"{"x":"\#(String(repeating: "a", count: 201))"}"#,
        ] {
            #expect(Self.path("/a/{/x}", payload) == nil, "\(payload)")
        }
        #expect(Self.path("/a/{id}", id: nil) == nil)
    }

    /// Parts of values that some server reads as a separator, a parent or the end of a path.
    private static let hostile = [
        ".", "..", "/", "\\", "%", "%2e", "%2F", "%25", "%252e", "%5c", ";", "?", "#", "\u{0}", "\n", "a", "://", "@",
        ":80",
        "é", "K", "..;", "%00", " ",
    ]

    /// Some templates are usual; in the others a value is only a part of a segment, or follows an escape.
    @Test(arguments: [
        "/{id}", "/contacts/{id}", "/contacts/{id}/notes/{/x}", "/a.{id}", "/.{id}", "/{id}{/x}", "/a/{/x}.json",
        "/a?b={/x}", "/a/%25{/x}",
    ]) func `no value leads out of the base URL, in any reading of the path`(_ template: String) throws {
        let seed = Seed()
        var random = seed.generator
        for _ in 0..<2_000 {
            let text = (0..<Int.random(in: 1...4, using: &random))
                .map { _ in Self.hostile[Int.random(in: 0..<Self.hostile.count, using: &random)] }.joined()
            var writer = JSONWriter()
            writer.object { $0.member("x", text) }
            let root = try JSONTree(parsing: writer.bytes).root
            guard let path = try? PathTemplate(template).path(id: ServerID(text: text, isInteger: false), payload: root)
            else { continue }
            #expect(PathRules.problem(in: path) == nil, "\(seed): \(path)")
            // the path has as many segments and query parameters as the template
            let expected = Self.shape(template.replacing("{/x}", with: "x").replacing("{id}", with: "x"))
            let found = Self.shape(path)
            #expect(found.segments == expected.segments && found.parameters == expected.parameters, "\(seed): \(path)")
        }
    }

    private static func shape(_ path: String) -> (segments: Int, parameters: Int) {
        let parts = path.utf8.split(separator: UInt8(ascii: "?"), omittingEmptySubsequences: false)
        let query = parts.count > 1 ? parts[1].count { $0 == UInt8(ascii: "&") } + 1 : 0
        return (parts[0].count { $0 == UInt8(ascii: "/") }, parts.count == 2 ? query : parts.count == 1 ? 0 : -1)
    }
}

@Suite struct BodyTemplateTests {
    private static func body(_ template: String, _ payload: String?, id: ServerID? = ServerID(7)) throws -> String? {
        var errors: [ProblemDetail] = []
        let body = BodyTemplate(try JSONTree(parsing: Array(template.utf8)).root, at: "/body", &errors)
        #expect(errors.isEmpty, "\(errors)")
        let root = try payload.map { try JSONTree(parsing: Array($0.utf8)).root }
        return try #require(body).body(id: id, payload: root).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func `makes a GraphQL request of a payload`() throws {
        let template =
            #"{"query":"mutation($i:In!){create(in:$i){id}}","variables":{"i":{"$":"payload"},"id":{"$":"id"}}}"#
        #expect(
            try Self.body(template, #"{"name":"Kari"}"#)
                == #"{"query":"mutation($i:In!){create(in:$i){id}}","variables":{"i":{"name":"Kari"},"id":7}}"#
        )
    }

    @Test func `leaves out missing members, and sends null for missing elements`() throws {
        let template = #"{"a":{"$":"/a"},"b":{"$":"/b"},"c":[{"$":"/b"},{"$":"/a"}]}"#
        #expect(try Self.body(template, #"{"a":[1]}"#) == #"{"a":[1],"c":[null,[1]]}"#)
        #expect(try Self.body(#"{"$":"payload"}"#, nil) == nil)
        #expect(
            try Self.body(#"{"id":{"$":"id"}}"#, nil, id: ServerID(text: "a\"b", isInteger: false)) == #"{"id":"a\"b"}"#
        )
    }

    @Test func `refuses unknown placeholders with their place`() throws {
        for (template, pointer) in [
            (#"{"a":{"$":"name"}}"#, "/body/a"), (#"{"a":[{"$":"/x","b":1}]}"#, "/body/a/0"), (#"{"$":1}"#, "/body"),
            (#"{"x/y":{"$":"/a~2"}}"#, "/body/x~1y"),
        ] {
            var errors: [ProblemDetail] = []
            #expect(BodyTemplate(try JSONTree(parsing: Array(template.utf8)).root, at: "/body", &errors) == nil)
            #expect(errors.map(\.pointer) == [pointer], "\(template)")
        }
    }
}
