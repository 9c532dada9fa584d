import JSONText
import Testing

@Suite("The grammar")
struct GrammarTests {
    @Test(arguments: [
        "null", "true", "false", "0", "-0", "-1", "1.5", "1e5", "1E+5", "1e-5", "-1.25e+10", "0.0", "0e0", "\"\"",
        "\"a\"", "[]", "{}", " [ ] ", "\t{\r\n} ", "[1,2]", "[[],[]]", "{\"\":0}", "{\"a\":{\"b\":[null]}}",
        #""\"\\\/\b\f\n\r\t\u0041""#, #""\ud83d\ude00""#, #""\uD83D\uDE00""#, "\"é😀\u{7f}\"", "[\"]\",\"[\"]",
        #"["\\","\\\\\""]"#, "\"\u{feff}\"", "12345678901234567890123456789.0", "[true ,false\n,null]",
    ]
    )
    func `Everything that RFC 8259 allows is parsed`(_ text: String) {
        #expect(fault(text) == nil)
    }

    @Test(
        arguments: [
            ("", .empty, 0), ("  \n", .empty, 3), ("[", .unexpectedEnd, 1), ("{", .unexpectedEnd, 1),
            ("[1", .unexpectedEnd, 2), ("[1,", .unexpectedEnd, 3), ("{\"a\"", .unexpectedEnd, 4),
            ("{\"a\":", .unexpectedEnd, 5), ("{\"a\":1", .unexpectedEnd, 6), ("{\"a\":1,", .unexpectedEnd, 7),
            ("[1,]", .expectedValue, 3), ("[,1]", .expectedValue, 1), ("[1,,2]", .expectedValue, 3),
            ("{\"a\":1,}", .expectedName, 7), ("{1:2}", .expectedName, 1), ("{,}", .expectedName, 1),
            ("{\"a\" 1}", .expectedColon, 5), ("{\"a\"}", .expectedColon, 4), ("{\"a\":}", .expectedValue, 5),
            ("[1 2]", .expectedCommaOrEnd, 3), ("{\"a\":1 \"b\":2}", .expectedCommaOrEnd, 7),
            ("[1}", .expectedCommaOrEnd, 2), ("{\"a\":1]", .expectedCommaOrEnd, 6), ("]", .expectedValue, 0),
            ("1 2", .trailingContent, 2), ("[] []", .trailingContent, 3), ("{}}", .trailingContent, 2),
            ("\"a\"b", .trailingContent, 3), ("\"a\"\"b\"", .trailingContent, 3), ("nul", .invalidLiteral, 0),
            ("[nulll]", .invalidLiteral, 1), ("True", .expectedValue, 0), ("tru\"e\"", .invalidLiteral, 0),
            ("NaN", .expectedValue, 0), ("Infinity", .expectedValue, 0), ("-Infinity", .invalidNumber, 1),
            ("01", .invalidNumber, 1), ("-01", .invalidNumber, 2), ("-", .invalidNumber, 1), ("+1", .expectedValue, 0),
            ("1.", .invalidNumber, 2), (".5", .expectedValue, 0), ("1e", .invalidNumber, 2), ("1e+", .invalidNumber, 3),
            ("1.e1", .invalidNumber, 2), ("0x1", .invalidNumber, 1), ("1a", .invalidNumber, 1),
            ("1\"\"", .invalidNumber, 1),
            ("--1", .invalidNumber, 1), ("1_000", .invalidNumber, 1), ("'a'", .expectedValue, 0),
            ("[1]//", .trailingContent, 3), ("\\\"a\"", .expectedValue, 0), ("\"", .unterminatedString, 0),
            ("[\"a]", .unterminatedString, 1), ("\"\\\"", .unterminatedString, 0), (#""\x""#, .invalidEscape, 1),
            (#""\u12""#, .invalidEscape, 1), (#""a\u12g4""#, .invalidEscape, 2), (#""\U0041""#, .invalidEscape, 1),
            (#""\ud83d\u00""#, .invalidEscape, 7), ("\"a\tb\"", .controlCharacter, 2), ("\"\n\"", .controlCharacter, 1),
            ("[\"\u{0}\"]", .controlCharacter, 2), ("\u{0}", .expectedValue, 0), ("1\u{0}", .invalidNumber, 1),
            ("\u{feff}1", .expectedValue, 0), ("\u{c}1", .expectedValue, 0), ("\u{a0}1", .expectedValue, 0),
            ("[1\u{b}]", .invalidNumber, 2),
        ] as [(String, JSONParseError.Kind, Int)]
    )
    func `Everything that RFC 8259 forbids is refused, with the offset of the invalid byte`(
        _ text: String,
        _ kind: JSONParseError.Kind,
        _ offset: Int
    ) {
        #expect(fault(text) == JSONParseError(kind: kind, offset: offset))
    }

    @Test(
        arguments: [
            [0xff], [0x80], [0xc0, 0x80], [0xc1, 0xbf], [0xc3], [0xe0, 0x80, 0x80], [0xe2, 0x82], [0xed, 0xa0, 0x80],
            [0xf0, 0x80, 0x80, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xf0, 0x9f, 0x98],
        ] as [[UInt8]]
    )
    func `Bytes that are not UTF-8 are refused at any place`(_ sequence: [UInt8]) {
        #expect(fault(Array("[\"ab".utf8) + sequence + Array("\"]".utf8)) == .init(kind: .invalidUTF8, offset: 4))
        let far = [UInt8](repeating: 0x20, count: 200)
        #expect(fault(far + sequence)?.kind == .invalidUTF8)
    }

    @Test
    func `A text truncated at any byte is refused, without reading past its end`() throws {
        let sample = #"{"é":[1.5e-7,true,false,null,"a\u00e9\\\ud83d\ude00",{}],"b" : -12, "c":{"d":"😀"}}"#
        _ = try parse(sample)
        for count in 0..<sample.utf8.count {
            #expect(fault(sample.utf8.prefix(count)) != nil, "\(count) bytes")
        }
    }

    @Test
    func `Every error has an explanation`() {
        for kind in JSONParseError.Kind.allCases {
            let explanation = JSONParseError(kind: kind, offset: 7).explanation
            #expect(explanation.hasSuffix("."))
            #expect(kind == .empty || explanation.contains("7"))
        }
    }
}
