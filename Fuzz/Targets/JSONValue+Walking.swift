import Foundation
import JSONText

extension JSONValue {
    /// This value and all values in it, in document order, without names.
    var everything: [JSONValue] {
        if let members { return [self] + members.flatMap { $0.value.everything } }
        if let elements { return [self] + elements.flatMap(\.everything) }
        return [self]
    }

    /// As a plain value in which names and strings are compared byte by byte: Swift treats `é` and `e` with an accent
    /// as equal, JSON does not. UUIDs are in lower case.
    var exact: Model {
        if let members { return .object(members.map { (Self.exact($0.name.string), $0.value.exact) }) }
        if let elements { return .array(elements.map(\.exact)) }
        if let string { return .string(uuid?.lowercased ?? Self.exact(string)) }
        return Model(self)
    }

    private static func exact(_ text: String) -> String {
        text.utf8.allSatisfy { $0 < 0x80 } ? text : "\u{1}" + text.utf8.map { String($0, radix: 16) }.joined()
    }
}
