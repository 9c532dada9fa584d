import JSONText
import Testing

/// The singular queries of the RFC's examples and of its compliance suite, and similar texts.
@Suite("Singular queries")
struct SingularQueryTests {
    private static func steps(_ text: String) -> [SingularQuery.Step]? { try? SingularQuery(text).steps }

    @Test
    func `Every singular query of RFC 9535 is parsed`() {
        let cases: [(String, [SingularQuery.Step])] = [
            ("$", []),
            ("$.a", [.member("a")]),
            ("$.o.id", [.member("o"), .member("id")]),
            ("$._9a", [.member("_9a")]),
            ("$.☺", [.member("☺")]),
            ("$['a']", [.member("a")]),
            (#"$["a"]"#, [.member("a")]),
            ("$['']", [.member("")]),
            ("$['https://acme.example/org']", [.member("https://acme.example/org")]),
            (#"$['a"b']"#, [.member(#"a"b"#)]),
            (#"$['\'\\\/\b\f\n\r\t']"#, [.member("'\\/\u{8}\u{c}\n\r\t")]),
            (#"$["\""]"#, [.member("\"")]),
            (#"$['\u263A']"#, [.member("☺")]),
            (#"$['\u263a']"#, [.member("☺")]),
            (#"$['\uD834\uDD1E']"#, [.member("𝄞")]),
            (#"$['\u0000']"#, [.member("\0")]),
            ("$['\u{7f}']", [.member("\u{7f}")]),
            ("$[0]", [.element(0)]),
            ("$[-1]", [.element(-1)]),
            ("$[9007199254740991]", [.element(9_007_199_254_740_991)]),
            ("$[-9007199254740991]", [.element(-9_007_199_254_740_991)]),
            ("$ [ 'a' ]\t.b\n[\r0 ]", [.member("a"), .member("b"), .element(0)]),
            ("$.a[1]['b'].c", [.member("a"), .element(1), .member("b"), .member("c")]),
        ]
        for (text, steps) in cases { #expect(Self.steps(text) == steps, "\(text)") }
    }

    @Test
    func `A query for more than one value is refused with its position`() {
        let cases = [
            ("$.*", 2), ("$..a", 2), ("$[*]", 2), ("$[1:2]", 3), ("$[:2]", 2), ("$[0,1]", 3), ("$['a','b']", 5),
            ("$[?@.a]", 2), ("$.a..b", 4),
        ]
        for (text, place) in cases {
            do throws(SingularQueryError) {
                _ = try SingularQuery(text)
                Issue.record("\(text) was taken")
            } catch {
                #expect(error.place == place, "\(text)")
                #expect(error.reason.hasPrefix("leads to more than one value"), "\(text)")
                #expect("\(error)".hasSuffix("at character \(place + 1)"))
            }
        }
    }

    @Test
    func `Texts that are no query are refused`() {
        let cases = [
            "", "a", " $", "$ ", "$.a ", "$.", "$. a", "$.a b", "$.1", "$.-1", "$.a-b", "$a", "$[]", "$[a]", "$['a",
            "$['a'",
            "$[ ", "$['a'", #"$['\"']"#, #"$["\'"]"#, #"$['\x']"#, #"$['\u12']"#, #"$['\uD834']"#, #"$['\uDD1E']"#,
            #"$['\uD834\u0041']"#, #"$['\uD834x']"#, "$['a\u{1}']", "$['\n']", "$[00]", "$[01]", "$[-0]", "$[-]",
            "$[+1]",
            "$[1.0]", "$[1e2]", "$[9007199254740992]", "$[-9007199254740992]", "$[99999999999999999999999]", "@.a",
            "$$", "$.$",
            #"$['\"#, "$.a.", "$['a']b",
        ]
        for text in cases { #expect(Self.steps(text) == nil, "\(text)") }
    }

    @Test
    func `Bytes and steps are limited`() {
        let most = SingularQuery.maximumSteps
        #expect(Self.steps("$" + String(repeating: ".a", count: most))?.count == most)
        #expect(Self.steps("$" + String(repeating: ".a", count: most + 1)) == nil)
        #expect(Self.steps("$['" + String(repeating: "a", count: SingularQuery.maximumBytes - 5) + "']") != nil)
        #expect(Self.steps("$['" + String(repeating: "a", count: SingularQuery.maximumBytes - 4) + "']") == nil)
    }

    @Test
    func `A normalized path parses to itself`() throws {
        let cases = [
            ("$", "$"), ("$.o.id", "$['o']['id']"), (#"$["a'b"]"#, #"$['a\'b']"#),
            (#"$['\u000b\n\\']"#, #"$['\u000b\n\\']"#),
            ("$[0][-1]", "$[0][-1]"), (#"$['\u0041"é']"#, #"$['A"é']"#),
        ]
        for (text, normalized) in cases {
            let query = try SingularQuery(text)
            #expect(query.description == normalized)
            #expect(try SingularQuery(normalized) == query)
        }
    }

    @Test
    func `Names are compared unescaped and byte by byte`() throws {
        let root = try parse(#"{"a":{"b\u0063":[1,{"d":null}]},"e\u0301":2,"\u00e9":3,"":4}"#).root
        func found(_ text: String) throws -> String? {
            root.value(at: try SingularQuery(text)).map { self.text($0.raw) }
        }
        #expect(try found("$.a.bc[0]") == "1")
        #expect(try found("$['a']['b\\u0063'][1].d") == "null")
        #expect(try found(#"$['\u00e9']"#) == "3")
        #expect(try found(#"$['e\u0301']"#) == "2")
        #expect(try found("$['']") == "4")
        #expect(try found("$") == text(root.raw))
        for missing in ["$.b", "$.a.bc.d", "$.a[0]", "$.a.bc['0']", "$[0]", "$.a.bc[0].d"] {
            #expect(try found(missing) == nil, "\(missing)")
        }
    }

    @Test
    func `A negative index counts from the end`() throws {
        let root = try parse("[10,[20],30]").root
        func found(_ text: String) throws -> String? {
            root.value(at: try SingularQuery(text)).map { self.text($0.raw) }
        }
        #expect(try found("$[-1]") == "30")
        #expect(try found("$[1][-1]") == "20")
        #expect(try found("$[-3]") == "10")
        for missing in ["$[3]", "$[-4]", "$[9007199254740991]", "$[-9007199254740991]", "$[0][0]"] {
            #expect(try found(missing) == nil, "\(missing)")
        }
    }

    private func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
}
