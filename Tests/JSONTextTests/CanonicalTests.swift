import JSONText
import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("The canonical form")
struct CanonicalTests {
    private func canonical(_ text: String) throws -> (bytes: [UInt8], identifiers: [UUID]) {
        var bytes: [UInt8] = []
        var identifiers: [UUID] = []
        try parse(text).root.appendCanonical(to: &bytes, identifiers: &identifiers)
        return (bytes, identifiers)
    }

    @Test
    func `White space is removed, members are sorted, strings have one escaping, and numbers stay`() throws {
        let written =
            #" { "b" : [ 1.0 , 1e5 , null ] , "\u0061" : "\/\u0022\u000A\u001F\u00e9" , "B" : { } , "" : true } "#
        #expect(try text(canonical(written).bytes) == #"{"":true,"B":{},"a":"/\"\n\u001fé","b":[1.0,1e5,null]}"#)
    }

    @Test(arguments: [2, 24, 25, 300])
    func `Any number of names is sorted by their unescaped bytes`(count: Int) throws {
        let names = (0..<count).map { "prefixed-\($0)" }
        let reversed = names.reversed().map { "\"\\u0070\($0.dropFirst())\":0" }.joined(separator: ",")
        let sorted = names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.map { "\"\($0)\":0" }
        #expect(try text(canonical("{\(reversed)}").bytes) == "{\(sorted.joined(separator: ","))}")
    }

    @Test
    func `A prefix sorts before longer names, and names sort by their bytes`() throws {
        let shuffled = #"{"ab":0,"é":0,"a":0,"a\u0000":0,"":0,"abcdefgh":0,"abcdefghi":0,"~":0,"abcdefg":0}"#
        let sorted =
            "{\"\":0,\"a\":0,\"a\\u0000\":0,\"ab\":0,\"abcdefg\":0,\"abcdefgh\":0,\"abcdefghi\":0,\"~\":0,\"é\":0}"
        #expect(try text(canonical(shuffled).bytes) == sorted)
    }

    @Test
    func `UUIDs become a marker, and are returned in the order of the form`() throws {
        let (first, second) = (UUID(), UUID())
        let one = try canonical("{\"a\":\"\(first)\",\"b\":[\"\(second.lowercased)\"]}")
        let other = try canonical("{\"b\":[\"\(second)\"],\"a\":\"\(first.lowercased)\"}")
        #expect(one.bytes == Array("{\"a\":\u{1},\"b\":[\u{1}]}".utf8))
        #expect(one.identifiers == [first, second])
        #expect(one == other)
    }

    @Test
    func `Appending keeps the existing content`() throws {
        var bytes: [UInt8] = [7]
        var identifiers = [UUID()]
        try parse("\"\(UUID())\"").root.appendCanonical(to: &bytes, identifiers: &identifiers)
        #expect(bytes == [7, 1])
        #expect(identifiers.count == 2)
    }

    @Test
    func `Equal values have one form, and different values have two`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var source = ModelSource(seed: seed)
        var previous: (model: Model, form: (bytes: [UInt8], identifiers: [UUID]))?
        for _ in 0..<400 {
            let model = source.value()
            let form = try canonical(source.write(model))
            #expect(try canonical(source.write(model)) == form, "seed \(seed)")
            if let previous { #expect((previous.model == model) == (previous.form == form), "seed \(seed)") }
            previous = (model, form)
        }
    }
}
