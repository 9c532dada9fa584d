import SyncModel
import Testing

@testable import AdministrationFeature
@testable import DemoUpstream

/// Routes that are proposed from an OpenAPI document.
@Suite struct OpenAPIRoutesTests {
    private static func document(_ paths: String, rest: String = "") throws -> OpenAPIRoutes {
        try OpenAPIRoutes(Array(#"{"openapi":"3.1.0","paths":{\#(paths)}\#(rest)}"#.utf8))
    }

    private static func lines(_ paths: String, rest: String = "") throws -> [String] {
        try document(paths, rest: rest).proposals
            .map { "\($0.type) \(String(decoding: $0.routes.json, as: UTF8.self))" }
    }

    private static let answer =
        ##""responses":{"201":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/C"}}}}}"##

    private static func schema(_ properties: String) -> String {
        #","components":{"schemas":{"C":{"type":"object","properties":\#(properties)}}}"#
    }

    @Test func `a usual collection becomes a type with short routes`() throws {
        let paths =
            #""/contacts":{"post":{\#(Self.answer)}},"/contacts/{id}":{"patch":{},"put":{},"delete":{},"get":{}}"#
        let rest = Self.schema(#"{"id":{"type":"integer"}}"#)
        #expect(try Self.lines(paths, rest: rest) == [#"contact {"collection":"/contacts"}"#])
        #expect(try Self.document(paths, rest: rest).proposals[0].remarks.isEmpty)
    }

    @Test func `the description of the demo's API has three usual collections`() throws {
        let document = try OpenAPIRoutes(DemoContract.json)
        let lines = document.proposals.map { "\($0.type) \(String(decoding: $0.routes.json, as: UTF8.self))" }
        let expected = ["contact", "activity", "expense"]
        #expect(document.proposals.map(\.type) == expected && document.skipped.isEmpty)
        #expect(lines.contains(#"activity {"collection":"/activities"}"#))
        #expect(document.proposals.allSatisfy { $0.remarks.isEmpty })
    }

    @Test func `a schema counts for each type that refers to it`() throws {
        let properties = (0..<1_000).map { #""z\#($0)_id":{"type":"string"}"# }.joined(separator: ",")
        func document(_ types: Int) throws -> OpenAPIRoutes {
            let paths = (0..<types).map { #""/t\#($0)":{"post":{\#(Self.answer)}},"/t\#($0)/{id}":{"put":{}}"# }
            return try Self.document(paths.joined(separator: ","), rest: Self.schema("{\(properties)}"))
        }
        #expect(try document(3).proposals.count == 3)
        #expect(throws: OpenAPIRoutes.Refusal.self) { try document(400) }
    }

    @Test func `missing methods, slashes and other ids make explicit routes`() throws {
        let paths = #""/api/entries/":{"post":{\#(Self.answer)}},"/api/entries/{entryId}/":{"put":{}}"#
        let rest = Self.schema(#"{"data":{"type":"object","properties":{"entryId":{"type":"string"}}}}"#)
        #expect(
            try Self.lines(paths, rest: rest) == [
                #"entry {"create":{"path":"/api/entries/","id_pointer":"/data/entryId"},"replace":{"path":"/api/entries/{id}/","id_pointer":"/data/entryId"}}"#
            ]
        )
        let remarks = try Self.document(paths, rest: rest).proposals[0].remarks
        #expect(remarks.contains { $0.contains("no PATCH") } && remarks.contains { $0.contains("no DELETE") })
        let partial = #""/boxes":{"post":{}},"/boxes/{id}":{"patch":{},"delete":{}}"#
        #expect(try Self.lines(partial) == [#"box {"collection":"/boxes","replace":null}"#])
    }

    @Test func `a nested POST creates the entities of a short path, if there is only one`() throws {
        let short = #""/items/{item}":{"put":{},"delete":{}}"#
        let one = try Self.document(#""/lists/{list_id}/items":{"post":{}},"# + short)
        #expect(one.proposals.map(\.type) == ["item"])
        #expect(
            String(decoding: one.proposals[0].routes.json, as: UTF8.self)
                == #"{"create":{"path":"/lists/{/list_id}/items"},"replace":{"path":"/items/{id}"},"#
                + #""delete":{"path":"/items/{id}"}}"#
        )
        let two = try Self.document(#""/a/{a}/items":{"post":{}},"/b/{b}/items":{"post":{}},"# + short)
        #expect(two.proposals.map(\.type) == ["item", "a_item", "b_item"])
    }

    @Test func `a nested collection takes its parent from the payload, and equal names get different types`() throws {
        let paths = #"""
            "/lists/{list_id}/items":{"post":{}},"/lists/{list}/items/{item}":{"delete":{}},
            "/items":{"post":{}},"/health":{"get":{}}
            """#
        let document = try Self.document(paths)
        #expect(document.proposals.map(\.type) == ["item", "list_item"])
        let nested = String(decoding: document.proposals[1].routes.json, as: UTF8.self)
        #expect(nested.contains(#"{"path":"/lists/{/list_id}/items"}"#), "\(nested)")
        #expect(document.skipped.count == 1 && document.skipped[0].hasPrefix("/health"))
    }

    @Test(arguments: ["/files/{id}.pdf", "/g/{id}:cancel", "/r/{a}-{b}", "/v{version}/contacts", "/Contacts({id})"])
    func `skips a path with a parameter in a part of a segment`(_ path: String) throws {
        let paths = #""\#(path)":{"get":{}},"/contacts":{"post":{}},"/contacts/{id}":{"patch":{}}"#
        let text = #"{"openapi":"3.1.0","paths":{\#(paths)}}"#
        let document = try OpenAPIRoutes(Array(text.utf8))
        #expect(document.proposals.map(\.type) == ["contact"])
        #expect(document.skipped == ["\(path): a parameter is only a part of a segment"])
    }

    @Test(arguments: ["contacts", "/a{b", "/a}b", "/{a{b}}"])
    func `refuses a path that is malformed`(_ path: String) {
        #expect(throws: OpenAPIRoutes.Refusal.self) {
            try OpenAPIRoutes(Array(#"{"openapi":"3.1.0","paths":{"\#(path)":{"get":{}}}}"#.utf8))
        }
    }

    @Test func `errors have a line and a column`() {
        for (text, detail) in [
            ("{\n  \"openapi\": 3,\n}", "line 3, column 1"),
            ("openapi: 3.0.0\n", "line 1, column 1"), ("# ours\r\n---\r\n'openapi' : 2.1.0\r\n", "line 3, column 13"),
            ("swagger: \"2.0\"\n", "line 1, column 10"), ("<p>openapi: 3</p>", "line 1, column 1"),
            (#"{"swagger":"2.0"}"#, "line 1, column 12"),
            (#"{"openapi":"3.0.1","paths":[]}"#, "line 1, column 28"),
            ("{\"openapi\":\"3.0.1\",\n\"paths\":{\"/a{b\":{}}}", "line 2, column 17"),
            ("{\"openapi\":\"3.0.1\",\n\"paths\":{\"/a\":7}}", "line 2, column 15"),
        ] {
            do throws(OpenAPIRoutes.Refusal) {
                _ = try OpenAPIRoutes(Array(text.utf8))
                Issue.record("\(text) was accepted")
            } catch {
                #expect(error.detail.contains(detail), "\(text): \(error.detail)")
            }
        }
    }

    @Test func `for references that lead nowhere or in a circle, the default applies`() throws {
        let paths = #""/contacts":{"post":{\#(Self.answer)}}"#
        let circle = ##","components":{"schemas":{"C":{"$ref":"#/components/schemas/C"}}}"##
        for rest in ["", circle, #","components":7"#] {
            let document = try Self.document(paths, rest: rest)
            #expect(document.proposals.count == 1 && document.proposals[0].remarks.contains { $0.contains("/id") })
        }
    }

    @Test(arguments: ["contacts", "entries", "boxes", "addresses", "status", "news", "Kinds-Of", "analyses"])
    func `names in the singular are valid names of types`(_ word: String) {
        #expect(EntityType.isValidName(OpenAPIResource.singular(word)), "\(OpenAPIResource.singular(word))")
    }
}
