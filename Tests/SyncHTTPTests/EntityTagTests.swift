import Testing

@testable import SyncHTTP

@Suite("Entity tags")
struct EntityTagTests {
    private let tag = EntityTag(of: Array("a body".utf8))

    @Test
    func `A tag is quoted, the same for the same bytes and another for others`() {
        #expect(tag.text.utf8.count == 34)
        #expect(tag.text.hasPrefix("\"") && tag.text.hasSuffix("\""))
        #expect(EntityTag(of: Array("a body".utf8)).text == tag.text)
        #expect(EntityTag(of: Array("another".utf8)).text != tag.text)
        #expect(EntityTag(of: []).text != tag.text)
    }

    @Test
    func `If-None-Match finds a tag alone, in a list, marked as weak, and by the asterisk`() {
        for field in [
            tag.text, "\"x\", \(tag.text)", "\(tag.text),\"x\"", "W/\(tag.text)", "W/\"x\" , W/\(tag.text)", "*",
        ] {
            #expect(tag.isAmong(field), "\(field)")
        }
    }

    @Test
    func `Other tags, and what is no tag, do not match`() {
        let bare = String(tag.text.dropFirst().dropLast())
        for field in [nil, "", ",", "\"x\"", bare, "w/\(tag.text)", "\"\(tag.text)\"", "**", "W/*"] {
            #expect(!tag.isAmong(field), "\(field ?? "nil")")
        }
    }
}
