import JSONText

/// The body of a route: JSON in which each `{"$": …}` is replaced by a value of the mutation.
///
/// `{"$": "payload"}` gives the payload, `{"$": "id"}` the entity's server id, and `{"$": "/member"}` the value at this
/// JSON Pointer in the payload. If a value is missing, a member is omitted, and an element of an array becomes null. If
/// the whole body is a missing value, the request has no body.
public struct BodyTemplate: Sendable, Hashable {
    static let maximumBytes = 16_384

    private enum Placeholder {
        case payload, id
        case member(String)
    }

    /// The template as JSON.
    public let json: [UInt8]

    /// Reads a template, or appends the errors in it.
    init?(_ value: JSONValue, at pointer: String, _ errors: inout [ProblemDetail]) {
        let before = errors.count
        if value.rawCount > Self.maximumBytes {
            let detail = "a body may have at most \(Self.maximumBytes) bytes"
            errors.append(ProblemDetail(pointer: pointer, rule: Rule.range, detail: detail))
        }
        Self.check(value, JSONPointer(pointer), &errors)
        guard errors.count == before else { return nil }
        json = Array(value.raw)
    }

    /// Whether the body contains the entity's server id.
    var namesEntity: Bool { (try? JSONTree(parsing: json).root).map(Self.holdsID) ?? false }

    /// The body of one mutation's request; nil for a request without a body.
    func body(id: ServerID?, payload: JSONValue?) -> [UInt8]? {
        guard let root = try? JSONTree(parsing: json).root else { return nil }
        var writer = JSONWriter(capacity: json.count + (payload?.rawCount ?? 0))
        return Self.write(root, id, payload, to: &writer) ? writer.bytes : nil
    }

    private static func placeholder(_ value: JSONValue) -> Placeholder? {
        guard let members = value.members, Array(members).count == 1, let text = value.value(at: "/$")?.string else {
            return nil
        }
        switch text {
        case "payload": return .payload
        case "id": return .id
        default: return text.utf8.first == UInt8(ascii: "/") && JSONPointer.isValid(text) ? .member(text) : nil
        }
    }

    private static func check(_ value: JSONValue, _ pointer: JSONPointer, _ errors: inout [ProblemDetail]) {
        if let members = value.members {
            if value.value(at: "/$") != nil {
                guard placeholder(value) == nil else { return }
                let detail = #"{"$"} must have one member: "payload", "id", or a JSON Pointer such as "/name""#
                errors.append(ProblemDetail(pointer: pointer.text, rule: Rule.range, detail: detail))
                return
            }
            for (name, value) in members { check(value, pointer.appending(member: name.string), &errors) }
        } else if let elements = value.elements {
            for (index, value) in elements.enumerated() { check(value, pointer.appending(index: index), &errors) }
        }
    }

    private static func holdsID(_ value: JSONValue) -> Bool {
        if let placeholder = placeholder(value) {
            if case .id = placeholder { return true }
            return false
        }
        if let members = value.members { return members.contains { holdsID($0.value) } }
        return value.elements?.contains { holdsID($0) } ?? false
    }

    /// Whether a value is written; false for a placeholder whose value is missing.
    private static func isPresent(_ value: JSONValue, _ id: ServerID?, _ payload: JSONValue?) -> Bool {
        switch placeholder(value) {
        case nil: true
        case .payload: payload != nil
        case .id: id != nil
        case .member(let pointer): payload?.value(at: pointer) != nil
        }
    }

    /// - Returns: whether anything was written.
    private static func write(
        _ value: JSONValue,
        _ id: ServerID?,
        _ payload: JSONValue?,
        to writer: inout JSONWriter
    ) -> Bool {
        guard isPresent(value, id, payload) else { return false }
        switch placeholder(value) {
        case .payload: if let payload { writer.value(payload) }
        case .id: writer.value(id)
        case .member(let pointer): if let member = payload?.value(at: pointer) { writer.value(member) }
        case nil:
            if let members = value.members {
                writer.beginObject()
                for (name, value) in members where isPresent(value, id, payload) {
                    writer.name(name.string)
                    _ = write(value, id, payload, to: &writer)
                }
                writer.endObject()
            } else if let elements = value.elements {
                writer.beginArray()
                for value in elements where !write(value, id, payload, to: &writer) { writer.null() }
                writer.endArray()
            } else {
                writer.value(value)
            }
        }
        return true
    }
}
