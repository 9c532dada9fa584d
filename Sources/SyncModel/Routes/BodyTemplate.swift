import JSONText

/// The template for a route's body, which is JSON with placeholders `{"$": …}` for values of the mutation.
///
/// The placeholder `{"$": "payload"}` is replaced by the payload, `{"$": "id"}` by the entity's server id, and
/// `{"$": "/member"}` by the value at this JSON Pointer in the payload. If the value for a member is missing, the
/// member is omitted. If the value for an element of an array is missing, the element becomes null. If the value for
/// the whole body is missing, the request has no body.
public struct BodyTemplate: Sendable, Hashable {
    static let maximumBytes = 16_384

    private enum Placeholder {
        case payload, id
        case member(String)
    }

    /// The template as JSON.
    public let json: [UInt8]

    /// Reads a template. If the template has errors, appends them to `errors`.
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
        guard let bytes = bytes(id: id, payload: payload), let root = try? JSONTree(parsing: json).root else {
            return nil
        }
        var writer = JSONWriter(capacity: bytes)
        return Self.write(root, id, payload, to: &writer) ? writer.bytes : nil
    }

    /// An upper bound of the body's size in bytes; nil for a request without a body.
    ///
    /// The bound is computed without rendering the body. The bound exceeds the exact size by less than
    /// ``maximumBytes``, because the bound includes the placeholders.
    func bytes(id: ServerID?, payload: JSONValue?) -> Int? {
        guard let root = try? JSONTree(parsing: json).root, Self.isPresent(root, id, payload) else { return nil }
        return json.count + Self.insertedBytes(root, id, payload)
    }

    /// The total size, in bytes, of the values that replace the placeholders.
    private static func insertedBytes(_ value: JSONValue, _ id: ServerID?, _ payload: JSONValue?) -> Int {
        switch placeholder(value) {
        case .payload: return payload?.rawCount ?? 0
        case .id:
            var writer = JSONWriter()
            writer.value(id)
            return writer.bytes.count
        case .member(let pointer): return payload?.value(at: pointer)?.rawCount ?? 0
        case nil:
            if let members = value.members { return members.reduce(0) { $0 + insertedBytes($1.value, id, payload) } }
            return value.elements?.reduce(0) { $0 + insertedBytes($1, id, payload) } ?? 0
        }
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
                let detail =
                    #"an object with "$" must have no other member; "$" must be "payload", "id" or a JSON Pointer"#
                    + #" such as "/name""#
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

    /// Whether a value is written. False for a placeholder if its value is missing.
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

/// The body of a mutation's request according to a route's template.
///
/// The body is rendered only when it is needed. The caller must reserve memory before it renders the body, because the
/// body may contain the payload many times.
public struct RoutedBody: Sendable, Hashable {
    private let template: BodyTemplate
    private let id: ServerID?
    private let payload: [UInt8]?
    /// An upper bound of the body's size in bytes; nil for a request without a body.
    let bytes: Int?

    /// - Parameter root: the root of `payload`.
    init(_ template: BodyTemplate, id: ServerID?, payload: [UInt8]?, root: JSONValue?) {
        (self.template, self.id, self.payload) = (template, id, payload)
        bytes = template.bytes(id: id, payload: root)
    }

    func rendered() -> [UInt8]? {
        let root = payload.flatMap { try? JSONTree(parsing: $0, limits: .widest).root }
        return template.body(id: id, payload: root)
    }
}
