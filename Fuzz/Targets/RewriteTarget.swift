import Foundation
import JSONText

/// UUIDs are replaced with ids, and every other byte stays.
enum RewriteTarget {
    static func run(_ bytes: [UInt8]) {
        guard let tree = try? JSONTree(parsing: bytes) else { return }
        let root = tree.root
        expect(root.rewritten { _ in nil } == nil, "something changes although nothing is replaced")
        let places = root.everything.filter { $0.uuid != nil }
        expect(places.compactMap(\.uuid) == root.uuids, "two searches find different UUIDs")
        var expected: [UInt8] = []
        var copied = root.offset
        var isChanged = false
        for place in places {
            guard let uuid = place.uuid, let new = replacement(uuid) else { continue }
            let text = written(new)
            isChanged = isChanged || text != Array(place.raw)
            expected += bytes[copied..<place.offset] + text
            copied = place.offset + place.rawCount
        }
        expected += bytes[copied..<root.offset + root.rawCount]
        let result = root.rewritten(replacement)
        expect(result == (isChanged ? expected : nil), "\(result.map { show($0) } ?? "nil"), not \(show(expected))")
        expect(!isChanged || (try? JSONTree(parsing: expected, limits: .widest)) != nil, "the result is not JSON")
    }

    /// Of each kind; a quarter stays.
    private static func replacement(_ uuid: UUID) -> JSONReplacement? {
        switch uuid.uuid.0 % 4 {
        case 0: nil
        case 1: .uuid(uuid)
        case 2: .integer(-Int64(uuid.uuid.1))
        default: .string("é\"\\\n\u{1}/\(uuid.uuid.1)")
        }
    }

    private static func written(_ new: JSONReplacement) -> [UInt8] {
        var writer = JSONWriter()
        switch new {
        case .uuid(let uuid): writer.uuid(uuid)
        case .string(let text): writer.string(text)
        case .integer(let number): writer.int(number)
        case .digits(let text): writer.raw(text.utf8)
        }
        return writer.bytes
    }
}
