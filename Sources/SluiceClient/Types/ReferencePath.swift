import Foundation

/// A path to the ids in a JSON value. It is a JSON pointer (RFC 6901), in which `*` matches every element or member.
struct ReferencePath: Sendable, Hashable {
    let text: String
    let steps: [String]
    let entityType: String

    /// Whether the text is a valid path: empty, or with a `/` before each step.
    var isPointer: Bool { text.isEmpty || text.hasPrefix("/") }

    /// - Parameter path: empty for the value itself; otherwise steps, each of which begins with `/`.
    init(_ path: String, to entityType: String) {
        text = path
        steps = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map {
            $0.replacing("~1", with: "/").replacing("~0", with: "~")
        }
        self.entityType = entityType
    }

    /// Returns the value with every id on this path replaced.
    func replacing(in value: JSON, _ id: (JSON) throws -> JSON) rethrows -> JSON {
        try replacing(in: value, steps[...], id)
    }

    private func replacing(in value: JSON, _ rest: ArraySlice<String>, _ id: (JSON) throws -> JSON) rethrows -> JSON {
        guard let step = rest.first else {
            switch value {
            case .string, .number: return try id(value)
            default: return value
            }
        }
        let behind = rest.dropFirst()
        switch value {
        case .array(let elements):
            return .array(
                try elements.enumerated().map { index, element in
                    step == "*" || step == String(index) ? try replacing(in: element, behind, id) : element
                }
            )
        case .object(var members):
            for (name, member) in members where step == "*" || step == name {
                members[name] = try replacing(in: member, behind, id)
            }
            return .object(members)
        default: return value
        }
    }
}
