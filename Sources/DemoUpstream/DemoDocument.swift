import Foundation
import JSONText
import SyncModel

/// A document in the demo's REST API, as JSON text without its id.
struct DemoDocument: Sendable {
    /// The longest text, and the longest body of a request, in bytes.
    static let maximumBytes = 262_144

    let id: Int
    /// The user who created it; edits by other users do not change it.
    let owner: UUID
    private(set) var version = 1
    private(set) var text: [UInt8]
    /// When it was made or changed.
    private(set) var updatedAt: Timestamp

    /// Stores an object; the document's own id replaces a member `id`.
    init(id: Int, owner: UUID, _ object: JSONValue, at moment: Timestamp) {
        self.id = id
        self.owner = owner
        text = Self.withoutID(object)
        updatedAt = moment
    }

    /// Strong validator (RFC 9110, 8.8.3): the version.
    var etag: String { "\"\(version)\"" }

    mutating func replace(with object: JSONValue, at moment: Timestamp) {
        text = Self.withoutID(object)
        version += 1
        updatedAt = moment
    }

    mutating func merge(_ patch: JSONValue, at moment: Timestamp) throws(JSONParseError) {
        let merged = try JSONValue.mergePatch(target: text, patch: patch, maximumBytes: Self.maximumBytes)
        replace(with: try JSONTree(parsing: merged).root, at: moment)
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("id", id)
        if let tree = try? JSONTree(parsing: text), let members = tree.root.members {
            for (name, value) in members {
                writer.name(name.string)
                writer.value(value)
            }
        }
        writer.endObject()
    }

    var json: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }

    private static func withoutID(_ object: JSONValue) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        if let members = object.members {
            for (name, value) in members where !name.equals("id") {
                writer.name(name.string)
                writer.value(value)
            }
        }
        writer.endObject()
        return writer.bytes
    }
}
