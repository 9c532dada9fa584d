import JSONText
import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("The writer")
struct WriterTests {
    @Test
    func `Commas are at their correct places`() throws {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("a")
        writer.beginArray()
        writer.int(1)
        writer.bool(true)
        writer.null()
        writer.beginObject()
        writer.endObject()
        writer.beginArray()
        writer.endArray()
        writer.string("x")
        writer.endArray()
        writer.member("b", 2)
        writer.name("run" + "time")
        writer.raw("[0]")
        writer.endObject()
        #expect(text(writer.bytes) == #"{"a":[1,true,null,{},[],"x"],"b":2,"runtime":[0]}"#)
    }

    @Test
    func `Members of every type, and nil as null`() throws {
        let uuid = UUID()
        let value = try parse(#"{"v":[1.50]}"#).root["v"]
        let slice = Array("[7]".utf8)[...]
        let nothing: (String?, UUID?, Int64?, Bool?, JSONValue?, [UInt8]?) = (nil, nil, nil, nil, nil, nil)
        var writer = JSONWriter(capacity: 0)
        writer.beginObject()
        writer.member("literal", "l")
        writer.member("static", "s" as StaticString)
        writer.member("optional", Optional("o"))
        writer.member("uuid", uuid)
        writer.member("min", Int64.min)
        writer.member("max", Int64.max)
        writer.member("bool", false)
        writer.member("value", value)
        writer.member("slice", raw: slice)
        writer.member("array", raw: Array(slice))
        writer.member("sequence", raw: "8".utf8)
        writer.member("n1", nothing.0)
        writer.member("n2", nothing.1)
        writer.member("n3", nothing.2)
        writer.member("n4", nothing.3)
        writer.member("n5", nothing.4)
        writer.member("n6", raw: nothing.5)
        writer.member(null: "n7")
        writer.endObject()
        let expected = """
            {"literal":"l","static":"s","optional":"o","uuid":"\(uuid.lowercased)","min":-9223372036854775808,\
            "max":9223372036854775807,"bool":false,"value":[1.50],"slice":[7],"array":[7],"sequence":8,\
            "n1":null,"n2":null,"n3":null,"n4":null,"n5":null,"n6":null,"n7":null}
            """
        #expect(text(writer.bytes) == expected)
    }

    @Test
    func `Every character round-trips`() throws {
        let characters = (0..<0x300).compactMap(UnicodeScalar.init) + ["\u{2028}", "\u{fffd}", "😀"]
        for character in characters {
            var writer = JSONWriter()
            writer.string("a\(character)b")
            #expect(try JSONTree(parsing: writer.bytes).root.string == "a\(character)b")
        }
        var writer = JSONWriter()
        writer.string("\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/é" as StaticString)
        #expect(text(writer.bytes) == #""\u0000\b\t\n\u000b\f\r\u001f\"\\/é""#)
    }

    @Test(
        arguments: [0, 1, -1, 9, 10, -10, 99, 100, .max, .min] as [Int64]
    )
    func `Numbers are written as Swift writes them`(_ number: Int64) {
        var writer = JSONWriter()
        writer.int(number)
        #expect(text(writer.bytes) == "\(number)")
    }
}
