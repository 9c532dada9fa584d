import Foundation
import JSONText

/// The entity that an upstream's answer shows: its id, and the document around it.
struct UpstreamEntity {
    /// The id, in the JSON kind that the upstream gave it.
    let id: ServerID
    /// The object that holds the id; nil when only `Location` named the entity.
    let document: [UInt8]?

    /// Finds the entity in an answer's body by the pointer to its id.
    init?(in response: UpstreamResponse, idPointer: String) {
        guard let json = response.json ?? response.unkeptJSON, let root = try? JSONTree(parsing: json).root,
            let id = root.value(at: idPointer).flatMap(ServerID.init(json:)),
            let step = idPointer.lastIndex(of: "/"), let holder = root.value(at: String(idPointer[..<step])),
            // neither duplicate members nor an invalid string can be the id
            !root.defects.contains(where: { (idPointer + "/").hasPrefix($0.pointer + "/") })
        else { return nil }
        self.id = id
        document = response.json != nil && holder.kind == .object ? Array(holder.raw) : nil
    }

    /// Takes the last segment of a `Location` as the id. A header has no JSON kinds: an id in the form of an integer
    /// counts as one.
    init?(location: String?) {
        guard let location else { return nil }
        var path = location.before("?", "#")
        // a host is no id
        if let authority = path.range(of: "//") { path = path[authority.upperBound...].from("/") }
        guard let segment = path.utf8.split(separator: UInt8(ascii: "/")).last,
            let text = String(validating: PercentEncoding.decoded(segment), as: UTF8.self),
            let id = ServerID(segment: text)
        else { return nil }
        self.id = id
        document = nil
    }
}

extension ServerID {
    /// Reads an id in a path.
    fileprivate init?(segment text: String) {
        if let number = Int64(text), String(number) == text {
            self.init(text: text, isInteger: true)
        } else if let uuid = UUID(parsing: text) {
            self.init(uuid)
        } else {
            var writer = JSONWriter()
            writer.string(text)
            guard let value = try? JSONTree(parsing: writer.bytes).root else { return nil }
            self.init(json: value)
        }
    }
}
