import JSONText
import SyncModel
import Testing

@testable import AdministrationFeature

/// OpenAPI documents in YAML, and the relations that documents suggest.
@Suite struct OpenAPIYAMLTests {
    private static let json = ##"""
        {"openapi":"3.1.0","servers":[{"url":"https://api.example.com"}],
         "paths":{
          "/contacts":{"post":{
            "requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Contact"}}}},
            "responses":{"201":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Contact"}}}}}}},
          "/contacts/{id}":{"patch":{},"put":{},"delete":{}},
          "/orders":{"post":{"requestBody":{"content":{"application/json":{"schema":{"allOf":[
            {"properties":{"contact_id":{"type":"string","description":"Whose order\nthis is"},"note":{"type":"string"}}},
            {"properties":{"productIds":{"type":"array","items":{"type":"integer"}}}}]}}}}}},
          "/orders/{id}":{"delete":{}},
          "/products":{"post":{"requestBody":{"content":{"application/json":{"schema":{"properties":{
            "contact":{"type":"object","properties":{"id":{"type":"string"}}}}}}}}}}},
         "components":{"schemas":{"Contact":{"type":"object","properties":{"id":{"type":"integer"}}}}}}
        """##

    private static let yaml = ##"""
        # the same document
        openapi: 3.1.0
        servers:
          - url: https://api.example.com
        paths:
          /contacts:
            post:
              requestBody:
                content: &content
                  application/json:
                    schema: {$ref: "#/components/schemas/Contact"}
              responses:
                201:
                  content: *content
          /contacts/{id}: {patch: {}, put: {}, delete: {}}
          /orders:
            post:
              requestBody:
                content:
                  application/json:
                    schema:
                      allOf:
                        - properties:
                            contact_id:
                              type: string
                              description: |-
                                Whose order
                                this is
                            note: {type: 'string'}
                        - properties:
                            productIds: {type: array, items: {type: integer}}
          /orders/{id}:
            delete: {}
          /products:
            post:
              requestBody:
                content:
                  application/json:
                    schema:
                      properties:
                        contact:
                          type: object
                          properties: {id: {type: string}}
        components:
          schemas:
            Contact: {type: object, properties: {id: {type: integer}}}
        """##

    private static func lines(_ text: String) throws -> [String] {
        try OpenAPIRoutes(Array(text.utf8)).proposals.map { proposal in
            let relations = proposal.relations.map { "\($0.member)→\($0.type)" }.joined(separator: " ")
            return "\(proposal.type) \(String(decoding: proposal.routes.json, as: UTF8.self)) \(relations)"
        }
    }

    private static func refusal(_ yaml: String) -> String {
        refusal(Array(yaml.utf8))
    }

    private static func refusal(_ yaml: [UInt8]) -> String {
        do throws(OpenAPIRoutes.Refusal) {
            _ = try YAMLDocument(yaml)
            return "accepted"
        } catch {
            return error.detail
        }
    }

    private static func json(_ yaml: String) throws -> String {
        String(decoding: try YAMLDocument(Array(yaml.utf8)).json, as: UTF8.self)
    }

    @Test func `a document in YAML gives the same routes and relations as in JSON`() throws {
        let lines = try Self.lines(Self.json)
        #expect(
            lines == [
                #"contact {"collection":"/contacts"} "#,
                #"order {"collection":"/orders","update":null,"replace":null} contact_id→contact productIds→product"#,
                #"product {"collection":"/products","update":null,"replace":null,"delete":null} contact→contact"#,
            ]
        )
        #expect(try Self.lines(Self.yaml) == lines)
        #expect(try Self.lines("\u{feff}" + Self.yaml) == lines)
        let remarks = try OpenAPIRoutes(Array(Self.yaml.utf8)).proposals[2].remarks
        #expect(remarks.contains { $0.hasPrefix("contact contains an object") })
    }

    @Test func `aliases are copies, and merge keys add members`() throws {
        #expect(try Self.json("a: &x {b: [1, 2]}\nc: *x") == #"{"a":{"b":[1,2]},"c":{"b":[1,2]}}"#)
        #expect(try Self.json("&k a: *k") == #"{"a":"a"}"#)
        let merged = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\nall:\n  <<: [*b, *m]\n  x: 0\n  w: 5"
        #expect(
            try Self.json(merged)
                == #"{"base":{"x":1,"y":2},"more":{"y":3,"z":4},"all":{"x":0,"w":5,"y":2,"z":4}}"#
        )
        #expect(try Self.json("a:\n  <<: {b: 1}\nc: 2") == #"{"a":{"b":1},"c":2}"#)
        #expect(Self.refusal("a: &x [1, *x]") == "the alias *x has no anchor before it, at line 1, column 11")
        #expect(Self.refusal("a: *x\nb: &x 1") == "the alias *x has no anchor before it, at line 1, column 4")
        #expect(Self.refusal("a: {<<: 7}").hasPrefix("the value of << must be a mapping"))
        #expect(Self.refusal("a: {<<: &z {b: 1}}\nc: *z").hasPrefix("the alias *z has no anchor"))
    }

    @Test(arguments: [
        ("true", "true"), ("False", "false"), ("~", "null"), ("", "null"), ("yes", #""yes""#), ("12", "12"),
        ("+3", "3"),
        ("-007", "-7"), ("0x1F", "31"), ("0o17", "15"), ("1.50", "1.50"), (".5", "0.5"), ("1.", "1"), ("1e-3", "1e-3"),
        (".inf", #"".inf""#), ("1.2.3", #""1.2.3""#), ("'12'", #""12""#), ("!!str 12", #""12""#),
        ("!!int 12", "12"), ("2026-01-01", #""2026-01-01""#), ("1_000", #""1_000""#),
        ("\"\\u00e6\\n\"", #""æ\n""#), (">\n  a\n  b", #""a b""#),
    ])
    func `scalars have the types of the core schema`(_ yaml: String, _ json: String) throws {
        #expect(try Self.json("a: \(yaml)") == #"{"a":\#(json)}"#)
        let tree = try JSONTree(parsing: Array(try Self.json("a: \(yaml)").utf8))
        #expect(tree.root.kind == .object)
    }

    @Test func `keys are texts`() throws {
        #expect(try Self.json("200: a\nnull: b\ntrue: c") == #"{"200":"a","null":"b","true":"c"}"#)
        #expect(Self.refusal("? [a]\n: 1") == "a key must be a text, and not a mapping or a list, at line 1, column 3")
        #expect(Self.refusal("? {a: 1}\n: 1").hasPrefix("a key must be a text"))
        #expect(Self.refusal("a: &x 1\n*x : 2") == "an alias cannot be a key, at line 2, column 1")
        #expect(Self.refusal("a: 1\nb: 2\n'a': 3") == "the key a occurs twice in a mapping, at line 3, column 1")
    }

    @Test func `errors of YAML have the line and the column`() {
        for (yaml, error) in [
            ("a: b\nc: d: e", "mapping values are not allowed in this context, at line 2, column 5"),
            ("a: [1, 2", "did not find expected ',' or ']' while parsing a flow sequence, at line"),
            ("a: 'x", "found unexpected end of stream while scanning a quoted scalar, at line 1, column 6"),
            ("a: 1\n\tb: 2", "line 2, column"), ("a: !x 1", "the tag !x is not supported, at line 1, column 4"),
            ("a: !!set {b}", "is not supported, at line 1, column 4"), ("", "the document is empty"),
            ("# nothing\n", "the document is empty"), ("a: 1\n---\nb: 2", "more than one YAML document, at line 2"),
            ("%YAML 9.1\n---\na: 1", "found incompatible YAML document"), ("a: &1 2\nb: *2", "the alias *2 has no"),
        ] {
            #expect(Self.refusal(yaml).contains(error), "\(yaml): \(Self.refusal(yaml))")
        }
        #expect(Self.refusal([97, 58, 32, 10, 98, 58, 32, 0xff]).contains("line 2, column 4"))
        #expect(Self.refusal([97, 58, 32, 0]).contains("line 1, column 4"))
    }

    @Test func `errors about the meaning of a document have the line and the column in YAML`() {
        for (yaml, error) in [
            ("openapi: 3.0.0\npaths:\n  /a{b: {}", "balanced braces, at line 3, column 9"),
            ("openapi: 3.0.0\npaths:\n- a\n", "paths must be an object, at line 3, column 1"),
            ("a: &p [1]\nopenapi: 3.0.0\npaths: *p\n", "paths must be an object, at line 3, column 8"),
            ("b: &b {/x: 7}\nopenapi: 3.0.0\npaths:\n  <<: *b\n", "the path /x must be an object, at line 4, column 7"),
        ] {
            #expect(Self.refusalOfRoutes(yaml).hasSuffix(error), "\(yaml): \(Self.refusalOfRoutes(yaml))")
        }
    }

    @Test func `hostile documents are refused before they need much memory or time`() {
        var bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        for level in 1...20 {
            let aliases = Array(repeating: "*a\(level - 1)", count: 9).joined(separator: ", ")
            bomb += "a\(level): &a\(level) [\(aliases)]\n"
        }
        #expect(Self.refusal(bomb).hasPrefix("the document with its aliases has more than 2000000 keys and values"))
        #expect(Self.refusal(bomb + "? [*a20]\n: 1").hasPrefix("the document with its aliases"))
        let text = String(repeating: "x", count: 1_000_000)
        let large = "a: &a \(text)\n" + (0..<70).map { "b\($0): *a\n" }.joined()
        #expect(Self.refusal(large).hasPrefix("the document with its aliases has more than 67108864 bytes"))
        var merges = "m0: &m0 {x0: \(text)}\n"
        for level in 1..<100 { merges += "m\(level): &m\(level) {<<: *m\(level - 1), x\(level): 1}\n" }
        #expect(Self.refusal(merges).hasPrefix("the document with its aliases has more than 67108864 bytes"))
        let deep = "nested deeper than 500 levels"
        #expect(Self.refusal(String(repeating: "[", count: 1_000_000)).contains(deep))
        #expect(Self.refusal((0..<600).map { String(repeating: " ", count: $0) + "a:\n" }.joined()).contains(deep))
        let nested = String(repeating: "[", count: 300) + String(repeating: "]", count: 300)
        let twice = "a: &a \(nested)\nb: \(String(repeating: "[", count: 300))*a"
        #expect(Self.refusal(twice).contains(deep))
        #expect(Self.refusal("a: " + String(repeating: "*a ", count: 10)).contains("line 1"))
    }

    @Test func `members become relations only if they name a proposed type`() throws {
        func relations(_ properties: String) throws -> [String] {
            let body = #""requestBody":{"content":{"application/json":{"schema":{"properties":{\#(properties)}}}}}"#
            let text = ##"""
                {"openapi":"3.0.0","paths":{"/contacts":{"post":{}},"/list_items":{"post":{}},
                 "/tasks":{"post":{\##(body)}},"/lists":{"post":{}},"/lists/{list}/notes":{"post":{}}},
                 "components":{"schemas":{"Contact":{"properties":{"id":{}}},"ContactId":{"type":"string"}}}}
                """##
            let proposals = try OpenAPIRoutes(Array(text.utf8)).proposals
            #expect(proposals.first { $0.type == "note" }?.relations.map(\.member) == ["list"])
            return proposals.first { $0.type == "task" }?.relations.map { "\($0.member)→\($0.type)" } ?? []
        }
        for (properties, expected) in [
            (
                #""contactId":{"type":"string"},"listItemID":{"type":["integer","null"]}"#,
                ["contactId→contact", "listItemID→list_item"]
            ),
            (##""owner":{"$ref":"#/components/schemas/Contact"}"##, ["owner→contact"]),
            (##""owner":{"allOf":[{"$ref":"#/components/schemas/ContactId"}],"description":"x"}"##, ["owner→contact"]),
            (##""owner":{"oneOf":[{"$ref":"#/components/schemas/Contact"},{"type":"null"}]}"##, ["owner→contact"]),
            (#""owner":{"type":"string","x-references":"contacts"}"#, ["owner→contact"]),
            (#""owners":{"type":"array","items":{"type":"string","x-entity-type":"Contact"}}"#, ["owners→contact"]),
            (#""contacts":{"type":"array","items":{"properties":{"id":{}}}}"#, ["contacts→contact"]),
            (#""contact_ids":{"type":"array","items":{"type":"string"}}"#, ["contact_ids→contact"]),
            // not ids, other types, and the entity's own id
            (#""contact_id":{"type":"boolean"},"contact":{"type":"string"},"contact_ids":{"type":"string"}"#, []),
            (#""contact_id":{"type":"array","items":{"type":"string"}},"customer_id":{"type":"string"}"#, []),
            (#""task_id":{"type":"string"},"id":{"type":"string"},"x":{"type":"string","x-go-name":"contact"}"#, []),
            (#""contact_id":{"type":"string","format":"date"},"list_id":{"type":"string","enum":["a"]}"#, []),
            (##""contact_id":{"$ref":"#/components/schemas/None"}"##, []),
        ] {
            #expect(try relations(properties) == expected, "\(properties)")
        }
        let many = (0..<150).map { #""c\#($0)":{"type":"string","x-relation":"contact"}"# }.joined(separator: ",")
        #expect(try relations(many).count == Relation.limit)
    }

    @Test func `relations that a type has are kept`() throws {
        let proposal = try OpenAPIRoutes(Array(Self.yaml.utf8)).proposals[1]
        func merged(_ known: [Relation]) -> (String?, [String]) {
            let result = proposal.merged(with: known)
            return (result.relations.map { String(decoding: $0, as: UTF8.self) }, result.remarks)
        }
        #expect(merged([]).0 == #"{"contact_id":"contact","productIds":"product"}"#)
        let other = [
            Relation(member: "ownerId", entityType: "person", idSpace: nil),
            Relation(member: "contact_id", entityType: "person", idSpace: nil),
        ]
        #expect(merged(other).0 == #"{"ownerId":"person","contact_id":"person","productIds":"product"}"#)
        #expect(merged(other).1 == ["contact_id keeps its relation to person"])
        let same = [
            Relation(member: "productIds", entityType: "product", idSpace: nil),
            Relation(member: "contact_id", entityType: "contact", idSpace: nil),
        ]
        #expect(merged(same).0 == nil && merged(same).1.isEmpty)
        let full = (0..<Relation.limit).map { Relation(member: "m\($0)", entityType: "x", idSpace: nil) }
        #expect(merged(full).0 == nil && merged(full).1.count == 2)
    }

    private static func refusalOfRoutes(_ yaml: String) -> String {
        do throws(OpenAPIRoutes.Refusal) {
            _ = try OpenAPIRoutes(Array(yaml.utf8))
            return "accepted"
        } catch {
            return error.detail
        }
    }
}
