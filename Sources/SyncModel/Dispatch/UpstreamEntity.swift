import Foundation
import JSONText

/// The entity that an upstream's answer shows: its id, and the document around it.
struct UpstreamEntity {
    /// The id, in the JSON kind that the upstream gave it.
    let id: ServerID
    /// The object that holds the id; nil where it cannot be stored.
    let document: [UInt8]?

    /// Finds the entity in a response's body by the pointer to its id.
    ///
    /// A 202 contains no entity: the request is processed later, and the body describes that (RFC 9110, 15.3.3).
    init?(in response: UpstreamResponse, idPointer: String) {
        guard response.status != 202, let json = response.json ?? response.unkeptJSON,
            let root = try? JSONTree(parsing: json).root,
            let id = root.value(at: idPointer).flatMap(ServerID.init(json:)),
            let step = idPointer.lastIndex(of: "/"), let holder = root.value(at: String(idPointer[..<step])),
            // neither duplicate members nor an invalid string can be the id
            !Self.isDefective(idPointer, in: root)
        else { return nil }
        self.id = id
        document = response.json != nil && holder.kind == .object ? Array(holder.raw) : nil
    }

    private static func isDefective(_ pointer: String, in root: JSONValue) -> Bool {
        root.defects.contains { (pointer + "/").hasPrefix($0.pointer + "/") }
    }

    /// Why a body shows no entity; completes "the body".
    static func problem(in response: UpstreamResponse, idPointer: String) -> String {
        guard let json = response.json ?? response.unkeptJSON, let root = try? JSONTree(parsing: json).root else {
            return response.unusableBody?.reason ?? "is empty"
        }
        guard let value = root.value(at: idPointer) else {
            let kind = root.kind == .array ? "is an array that" : "is JSON that"
            return "\(kind) has no value at \(idPointer)"
        }
        if isDefective(idPointer, in: root) { return "has a duplicate member or an invalid text at \(idPointer)" }
        switch value.kind {
        case .null: return "has null at \(idPointer)"
        case .bool: return "has a boolean at \(idPointer)"
        case .object: return "has an object at \(idPointer)"
        case .array: return "has an array at \(idPointer)"
        case .number: return "has a number at \(idPointer) that is not written as a whole number of up to 200 digits"
        case .string:
            return "has a text at \(idPointer) that is empty, longer than 200 bytes, or has control characters"
        }
    }
}
