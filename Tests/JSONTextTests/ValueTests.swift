import JSONText
import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("Values")
struct ValueTests {
    @Test
    func `Every type is distinguished from the others`() throws {
        let values = try Array(#require(parse(#"[{},[],"",0,true,false,null]"#).root.elements))
        #expect(values.map(\.kind) == [.object, .array, .string, .number, .bool, .bool, .null])
        #expect(values.map(\.bool) == [nil, nil, nil, nil, true, false, nil])
        #expect(values.map(\.isNull) == [false, false, false, false, false, false, true])
        #expect(values.map { $0.members != nil } == [true, false, false, false, false, false, false])
        #expect(values.map { $0.elements != nil } == [false, true, false, false, false, false, false])
        #expect(values.map(\.string) == [nil, nil, "", nil, nil, nil, nil])
        #expect(values.map(\.depth) == [1, 1, 0, 0, 0, 0, 0])
    }

    @Test
    func `The text of a value is the original text`() throws {
        let root = try parse(" { \"a\" : [ 1.50 , \"\\u0041\" ] } ").root
        #expect(text(root.raw) == "{ \"a\" : [ 1.50 , \"\\u0041\" ] }")
        let array = try #require(root["a"])
        #expect(text(array.raw) == "[ 1.50 , \"\\u0041\" ]")
        #expect(array.rawCount == array.raw.count)
        #expect(array.offset == array.raw.startIndex)
        #expect(array.elements.map { $0.map { text($0.raw) } } == ["1.50", "\"\\u0041\""])
    }

    @Test
    func `Strings are unescaped`() throws {
        #expect(try parse(#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é""#).root.string == "\"\\/\u{8}\u{c}\n\r\té😀é")
        #expect(try parse(#""a\u0000b""#).root.string == "a\u{0}b")
        #expect(try parse(#""\ud800""#).root.string?.contains("\u{fffd}") == true)
        #expect(try parse(#""p\u006fst""#).root.stringEquals("post"))
        #expect(try parse("\"post\"").root.stringEquals("post"))
        #expect(try !parse("\"posts\"").root.stringEquals("post"))
        #expect(try !parse("\"pos\"").root.stringEquals("post"))
        #expect(try !parse("4").root.stringEquals("4"))
        #expect(try parse(#""p\u006fst""#).root.withString { String(decoding: $0, as: UTF8.self) } == "post")
        #expect(try parse("4").root.withString(\.count) == nil)
    }

    @Test(
        arguments: [
            ("0", 0), ("-0", 0), ("42", 42), ("-1", -1), ("9223372036854775807", .max),
            ("-9223372036854775808", .min), ("9223372036854775808", nil), ("-9223372036854775809", nil),
            ("100000000000000000000000", nil), ("\"1\"", nil), ("true", nil), ("1.0", 1), ("1e2", 100),
            ("-1.50E+1", -15),
            ("0.0", 0), ("-0.0e9", 0), ("0e-999999999999999999999", 0), ("2500e-2", 25), ("0.00012e5", 12),
            ("9.223372036854775807e18", .max), ("-9223372036854775808.000", .min), ("9223372036854775808.0", nil),
            ("-9223372036854775809e0", nil), ("1.5", nil), ("1e-1", nil), ("1e19", nil),
            ("1e999999999999999999999", nil),
            ("1.00000000000000000000000000000001", nil), ("12300000000000000000000e-20", 123),
        ] as [(String, Int64?)]
    )
    func `Integers are parsed up to the ends of their range`(_ number: String, _ expected: Int64?) throws {
        #expect(try parse(number).root.int64 == expected)
    }

    @Test
    func `Members are in order, with unescaped names, and the first of a name is found`() throws {
        let root = try parse(#"{"b":1,"\u0061":{"b":[2]},"b":3}"#).root
        #expect(root.members.map { $0.map(\.name.string) } == ["b", "a", "b"])
        #expect(root.members.map { $0.map { text($0.name.raw) } } == ["\"b\"", "\"\\u0061\"", "\"b\""])
        #expect(root.members.map { $0.map { $0.name.equals("a") } } == [false, true, false])
        #expect(root.members.map { $0.map(\.name.utf8Count) } == [1, nil, 1])
        var passed: [String] = []
        root.members?.forEach { name, value in passed.append(name.string + text(value.raw)) }
        #expect(passed == ["b1", #"a{"b":[2]}"#, "b3"])
        #expect(root["b"]?.int64 == 1)
        #expect(root["a"]?["b"]?.depth == 1)
        #expect(root["c"] == nil)
        #expect(root["b"]?["b"] == nil)
        #expect(root.members?.isEmpty == false)
        #expect(try parse("{ }").root.members?.isEmpty == true)
        #expect(try parse("[1,[],3]").root.elements?.count == 3)
        #expect(try parse("[ ]").root.elements?.isEmpty == true)
    }

    @Test
    func `A tree outlives the names of its parts`() throws {
        func element() throws -> JSONValue? { try parse("[\"kept\"]").root.elements?.first { _ in true } }
        #expect(try element()?.string == "kept")
    }

    /// The example of RFC 6901, section 5.
    @Test(
        arguments: [
            ("/foo", "[\"bar\", \"baz\"]"), ("/foo/0", "\"bar\""), ("/foo/1", "\"baz\""), ("/", "0"), ("/a~1b", "1"),
            ("/c%d", "2"), ("/e^f", "3"), ("/g|h", "4"), ("/i\\j", "5"), ("/k\"l", "6"), ("/ ", "7"), ("/m~0n", "8"),
            ("/o/p/2", "11"), ("/foo/2", nil), ("/foo/-", nil), ("/foo/01", nil), ("/foo/", nil), ("foo", nil),
            ("/m~n", nil), ("/m~2n", nil), ("/foo/0/x", nil), ("/foo/99999999999999999999", nil), ("/nope", nil),
        ] as [(String, String?)]
    )
    func `Pointers resolve as in RFC 6901`(_ pointer: String, _ expected: String?) throws {
        let root = try parse(
            #"{"foo":["bar", "baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"o":{"p":[9,10,11]}}"#
        ).root
        #expect(root.value(at: pointer).map { text($0.raw) } == expected)
        #expect(root.value(at: "").map { text($0.raw) } == text(root.raw))
    }

    @Test
    func `Pointers are built with escapes`() {
        var pointer = JSONPointer()
        #expect(pointer.text.isEmpty)
        pointer.append(member: "a/b~c")
        pointer.append(index: 3)
        #expect(pointer.text == "/a~1b~0c/3")
        #expect(pointer.appending(member: "").appending(index: 0).description == "/a~1b~0c/3//0")
    }
}
