import JSONText

/// The template for a route's path, which is a text with the placeholders `{id}` and `{/member}`.
///
/// The placeholder `{id}` is replaced by the entity's server id, and `{/member}` by the value at this JSON Pointer in
/// the payload. The values are percent-encoded, because no value must be able to add a segment or a query.
public struct PathTemplate: Sendable, Hashable {
    private enum Part {
        case text(Substring)
        case id
        /// A JSON Pointer of at least one step.
        case member(String)
    }

    /// The template as the operator wrote it.
    @Exact public private(set) var text: String

    /// - Throws: the error. Its text continues a sentence that begins with "path", such as "path is longer than 2048
    ///   bytes".
    public init(_ text: String) throws(Endpoint.Malformed) {
        guard text.utf8.count <= Endpoint.maximumBytes else { throw Endpoint.Malformed("is longer than 2048 bytes") }
        var sample = ""
        for part in try Self.parts(of: text) {
            if case .text(let text) = part { sample += text } else { sample += "x" }
        }
        if let problem = PathRules.problem(in: sample) { throw Endpoint.Malformed(problem) }
        self.text = text
    }

    /// Whether the path contains the entity's server id.
    public var namesEntity: Bool {
        (try? Self.parts(of: text))?.contains { if case .id = $0 { true } else { false } } ?? false
    }

    /// The path of one mutation's request.
    ///
    /// - Parameters:
    ///   - id: the entity's id; nil if the id is not known.
    ///   - payload: the payload, with server ids in place of client ids.
    /// - Throws: `validation_failed` if a value is missing, or if the resulting path could be outside of the base URL.
    func path(id: ServerID?, payload: JSONValue?) throws(Problem) -> String {
        guard let parts = try? Self.parts(of: text) else {
            throw Problem(.validationFailed, "the path of its route is malformed")
        }
        var path = ""
        for part in parts {
            switch part {
            case .text(let text): path += text
            case .id:
                guard let id else {
                    throw Problem(.validationFailed, "the path of its route needs the entity's server id")
                }
                path += Self.encoded(id.text)
            case .member(let pointer): path += Self.encoded(try Self.value(at: pointer, in: payload))
            }
        }
        if let problem = PathRules.problem(in: path) {
            throw Problem(.validationFailed, "after replacement of ids and members, the path of its route \(problem)")
        }
        return path
    }

    private static func encoded(_ text: String) -> String {
        String(decoding: PercentEncoding.encoded(text), as: UTF8.self)
    }

    /// The value of a placeholder for a member of the payload, which must be a text or an integer of 1 to 200 bytes.
    private static func value(at pointer: String, in payload: JSONValue?) throws(Problem) -> String {
        let value = payload?.value(at: pointer)
        if let text = value?.string ?? value?.integerText, (1...ServerID.maximumBytes).contains(text.utf8.count) {
            return text
        }
        let detail = "the path of its route needs a text or an integer of 1 to 200 bytes at \(pointer) of the payload"
        throw Problem(.validationFailed, pointer: "/payload" + pointer, rule: Rule.required, detail)
    }

    private static func parts(of text: String) throws(Endpoint.Malformed) -> [Part] {
        var parts: [Part] = []
        var rest = text[...]
        while let brace = rest.unicodeScalars.firstIndex(where: { $0 == "{" || $0 == "}" }) {
            guard rest.unicodeScalars[brace] == "{" else { throw Endpoint.Malformed("has a '}' without a '{'") }
            if brace > rest.startIndex { parts.append(.text(rest[..<brace])) }
            rest = rest[rest.unicodeScalars.index(after: brace)...]
            guard let end = rest.unicodeScalars.firstIndex(of: "}") else {
                throw Endpoint.Malformed("has a '{' without a '}'")
            }
            parts.append(try part(String(rest[..<end])))
            rest = rest[rest.unicodeScalars.index(after: end)...]
        }
        if !rest.isEmpty { parts.append(.text(rest)) }
        return parts
    }

    private static func part(_ name: String) throws(Endpoint.Malformed) -> Part {
        if name == "id" { return .id }
        if name.utf8.first == UInt8(ascii: "/"), JSONPointer.isValid(name) { return .member(name) }
        throw Endpoint.Malformed("has '{\(UnknownMember.shown(name))}'; use {id}, or a JSON Pointer such as {/list_id}")
    }
}
