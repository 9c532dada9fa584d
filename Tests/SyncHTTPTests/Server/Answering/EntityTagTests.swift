import Testing

@testable import SyncHTTP

@Suite("Entity tags")
struct EntityTagTests {
    private let tag = EntityTag(of: Array("a body".utf8))

    @Test
    func `a tag is quoted and depends only on the bytes`() {
        #expect(tag.text.utf8.count == 34)
        #expect(tag.text.hasPrefix("\"") && tag.text.hasSuffix("\""))
        #expect(EntityTag(of: Array("a body".utf8)).text == tag.text)
        #expect(EntityTag(of: Array("another".utf8)).text != tag.text)
        #expect(EntityTag(of: []).text != tag.text)
    }

    @Test
    func `If-None-Match matches a single tag, a list, a weak tag and an asterisk`() {
        for field in [
            tag.text, "\"x\", \(tag.text)", "\(tag.text),\"x\"", "W/\(tag.text)", "W/\"x\" , W/\(tag.text)", "*",
        ] {
            #expect(tag.isAmong(field), "\(field)")
        }
    }

    @Test
    func `other tags and invalid ones do not match`() {
        let bare = String(tag.text.dropFirst().dropLast())
        for field in [nil, "", ",", "\"x\"", bare, "w/\(tag.text)", "\"\(tag.text)\"", "**", "W/*"] {
            #expect(!tag.isAmong(field), "\(field ?? "nil")")
        }
    }
}
