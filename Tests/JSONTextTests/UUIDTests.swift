import JSONText
import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("UUIDs")
struct UUIDTests {
    @Test
    func `Text is parsed and written as Foundation does, in lower case`() {
        for _ in 0..<1_000 {
            let uuid = UUID()
            #expect(UUID(parsing: uuid.uuidString) == uuid)
            #expect(UUID(parsing: uuid.uuidString.lowercased()) == uuid)
            #expect(uuid.lowercased == uuid.uuidString.lowercased())
            var bytes: [UInt8] = [1]
            uuid.appendLowercased(to: &bytes)
            #expect(bytes == [1] + Array(uuid.lowercased.utf8))
            #expect(UUID(text: bytes.dropFirst()) == uuid)
            #expect(UUID(text: bytes) == nil)
        }
    }

    @Test
    func `Any invalid byte is refused`() {
        let text = Array("0b0c5f8e-1111-4222-8333-abcdefABCDEF".utf8)
        #expect(UUID(text: text) != nil)
        for place in text.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = text
                changed[place] = byte
                let isDash = byte == UInt8(ascii: "-")
                let isDigit = Character(UnicodeScalar(byte)).isASCII && Character(UnicodeScalar(byte)).isHexDigit
                let belongs = [8, 13, 18, 23].contains(place) ? isDash : isDigit
                #expect((UUID(text: changed) != nil) == belongs, "\(byte) at \(place)")
            }
        }
        #expect(UUID(parsing: "") == nil)
        #expect(UUID(parsing: "{0b0c5f8e-1111-4222-8333-abcdefABCDEF}") == nil)
    }

    @Test
    func `UUID-shaped string values are found in either case, escaped or not; names are ignored`() throws {
        let (first, second) = (UUID(), UUID())
        let escaped = "\\u00" + String(first.lowercased.utf8.first ?? 0, radix: 16) + first.lowercased.dropFirst()
        let everyByteEscaped = second.lowercased.utf8.map { "\\u00" + String($0, radix: 16) }.joined()
        let root = try parse(
            """
            {"\(first)":"\(first)","a":["\(second.lowercased)",{"b":"\(first)"}],"c":"\(first)x","d":"{\(second)}",\
            "e":"\(escaped)","f":"\(everyByteEscaped)","g":"\(first.uuidString.replacing("-", with: "_"))"}
            """
        ).root
        #expect(root.uuids == [first, second, first, first, second])
        #expect(root["e"]?.uuid == first)
        #expect(root["f"]?.uuid == second)
        #expect(root["a"]?.uuids == [second, first])
        #expect(root["c"]?.uuid == nil)
        #expect(root["a"]?.uuid == nil)
    }
}
