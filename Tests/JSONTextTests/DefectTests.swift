import JSONText
import Testing

@Suite("Defects")
struct DefectTests {
    private func found(_ text: String) throws -> [String] {
        try parse(text).defects.map { "\($0.kind) \($0.pointer)" }
    }

    @Test
    func `Valid texts have no defects`() throws {
        let tree = try parse(#"{"a":1,"A":2,"aa":[{"a":1},{"a":2}],"é":"\ud83d\ude00","\u00e8":1e131071}"#)
        #expect(tree.defects.isEmpty)
        #expect(!tree.root.hasDefects)
    }

    @Test
    func `Names are compared unescaped`() throws {
        #expect(try found(#"{"a":1,"a":2}"#) == ["duplicateMember /a"])
        #expect(try found(#"{"a":1,"\u0061":2}"#) == ["duplicateMember /a"])
        #expect(try found(#"{"\/":1,"/":2}"#) == ["duplicateMember /~1"])
        #expect(try found(#"{"":1,"":2,"":3}"#) == ["duplicateMember /", "duplicateMember /"])
        #expect(try found(#"[0,{"x":{"a":1,"b":2,"a":3}}]"#) == ["duplicateMember /1/x/a"])
        // Composed and decomposed are one text in Unicode, but two names in JSON.
        #expect(try found("{\"\u{e9}\":1,\"e\u{301}\":2}") == [])
    }

    @Test(arguments: [15, 16, 17, 18, 100, 1_000])
    func `Duplicates are found in objects of many members`(count: Int) throws {
        let names = (0..<count - 1).map { "\"name\($0)\":\($0)" }
        for place in [0, count / 2, count - 2] {
            let text = "{" + (names + ["\"\\u006eame\(place)\":0"]).joined(separator: ",") + "}"
            #expect(try found(text) == ["duplicateMember /name\(place)"])
        }
        #expect(try found("{" + names.joined(separator: ",") + "}") == [])
    }

    @Test
    func `Names of every length that differ in any one byte are different`() throws {
        for length in 1..<40 {
            let base = [Character](repeating: "a", count: length)
            let names = (0..<length).map { place in
                var name = base
                name[place] = "b"
                return String(name)
            }
            for chunk in [Array(names.prefix(16)), names] {
                #expect(try found("{" + chunk.map { "\"\($0)\":1" }.joined(separator: ",") + "}") == [])
            }
        }
    }

    @Test
    func `A hundred thousand duplicates take little time, and 64 are reported`() throws {
        let text = "{" + [String](repeating: "\"a\":1", count: 100_000).joined(separator: ",") + "}"
        #expect(try parse(text).defects.count == 64)
    }

    @Test
    func `A value's defects are found after any number of others`() throws {
        let bad = [String](repeating: #"{"a":1,"a":2}"#, count: 100).joined(separator: ",")
        let tree = try parse("[[\(bad)],{\"ok\":1},{\"n\":\"\\u0000\"}]")
        let values = try Array(#require(tree.root.elements))
        #expect(values[0].defects.count == 64)
        #expect(!values[1].hasDefects)
        #expect(values[2].defects.map(\.pointer) == ["/n"])
        #expect(values[2].defects.map(\.kind) == [.nulCharacter])
    }

    @Test
    func `U+0000 and unpaired surrogates are found in strings and names`() throws {
        #expect(try found(#"["\u0000"]"#) == ["nulCharacter /0"])
        #expect(try found(#"{"a\u0000":1}"#) == ["nulCharacter /a\u{0}"])
        for lone in [#"\ud800"#, #"\udc00"#, #"\ud83dx"#, #"\ud83d\ud83d"#, #"\ude00\ud83d"#, #"\ud83d\n"#] {
            #expect(try found("[\"\(lone)\"]") == ["loneSurrogate /0"], "\(lone)")
        }
        #expect(try found(#"["\u0000\ud800"]"#) == ["nulCharacter /0", "loneSurrogate /0"])
    }

    @Test(arguments: [
        ("1e131071", true), ("1e131072", false), ("9.99e131071", true), ("0.1e131072", true),
        ("0.1e131073", false), ("0.001e131074", true), ("10e131071", false), ("1e-16383", true),
        ("1e-16384", false), ("1.5e-16382", true), ("1.5e-16383", false), ("0e131073", true), ("0e-16384", false),
        ("-1e131072", false), ("1e99999999999999999999", false), ("0e99999999999999999999", false),
        ("1e-99999999999999999999", false), ("100e-16385", false), ("1e+0000000000000005", true),
    ]
    )
    func `Numbers that PostgreSQL's numeric can't hold are found`(_ number: String, fits: Bool) throws {
        #expect(try parse(number).defects.map(\.kind) == (fits ? [] : [.numberOutOfRange]))
    }

    @Test
    func `Digits are counted without an exponent`() throws {
        let digits = String(repeating: "7", count: 131_072)
        #expect(try parse(digits).defects.isEmpty)
        #expect(try parse(digits + "7").defects.map(\.kind) == [.numberOutOfRange])
        #expect(try parse("0." + digits.prefix(16_383)).defects.isEmpty)
        #expect(try parse("0." + digits.prefix(16_384)).defects.map(\.kind) == [.numberOutOfRange])
    }

    @Test
    func `Pointers to defects have a bounded length`() throws {
        let name = String(repeating: "n", count: 100_000)
        let pointer = try #require(parse("{\"a\":{\"\(name)\":[\"\\u0000\"]}}").defects.first?.pointer)
        #expect(pointer == "/a/…")
    }

    @Test
    func `Each defect has an explanation`() throws {
        for defect in try parse(#"{"a":1,"a":["\u0000","\ud800",1e999999]}"#).defects {
            #expect(defect.explanation.hasSuffix("."))
        }
    }
}
