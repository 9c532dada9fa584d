import Foundation
import JSONText

/// A path segment in which OData names an entity by its key.
///
/// `Contacts(77)`, `Contacts('abc')`, `Contacts(id=77)`.
struct ODataKey {
    /// The entity set or the navigation property: the text before the parenthesis.
    let name: String
    /// The key; nil where it has several parts, or a form that no id has.
    let id: ServerID?

    /// - Parameter segment: percent-decoded.
    init?(segment: String) {
        let bytes = Array(segment.utf8)
        guard bytes.last == UInt8(ascii: ")"), let open = bytes.firstIndex(of: UInt8(ascii: "(")), open > 0 else {
            return nil
        }
        name = String(decoding: bytes[..<open], as: UTF8.self)
        id = Self.id(bytes[(open + 1)...].dropLast())
    }

    private static let quote = UInt8(ascii: "'")

    private static func id(_ text: ArraySlice<UInt8>) -> ServerID? {
        var value = text
        // a single key may be written with its property's name
        let plain = text.prefix { $0 != quote }
        if let equals = plain.firstIndex(of: UInt8(ascii: "=")) { value = text[(equals + 1)...] }
        guard let first = value.first else { return nil }
        if first == quote { return quoted(value).flatMap { ServerID(pathText: $0, isText: true) } }
        // of earlier versions: guid'…'
        if let open = value.firstIndex(of: quote) {
            let form = String(decoding: value[..<open], as: UTF8.self).lowercased()
            guard form == "guid", let text = quoted(value[open...]), let uuid = UUID(parsing: text) else { return nil }
            return ServerID(uuid)
        }
        guard !value.contains(where: { $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "=") }) else { return nil }
        var bare = String(decoding: value, as: UTF8.self)
        // of earlier versions: 77L
        if bare.hasSuffix("L") || bare.hasSuffix("l"), ServerID.isInteger(String(bare.dropLast())) { bare.removeLast() }
        return ServerID(pathText: bare)
    }

    /// The text between quotes, in which a doubled quote is one.
    ///
    /// Nil unless the quotes end with the text.
    private static func quoted(_ text: ArraySlice<UInt8>) -> String? {
        guard text.count >= 2, text.first == quote, text.last == quote else { return nil }
        var output: [UInt8] = []
        var rest = text.dropFirst().dropLast()
        while let byte = rest.popFirst() {
            if byte == quote {
                guard rest.popFirst() == quote else { return nil }
            }
            output.append(byte)
        }
        return String(validating: output, as: UTF8.self)
    }
}

extension ServerID {
    /// Reads an id in a path.
    ///
    /// A path has no JSON kinds, so a text in the form of an integer counts as an integer.
    ///
    /// - Parameter isText: whether the path marks the id as text, as OData's quotes do.
    init?(pathText text: String, isText: Bool = false) {
        if !isText, ServerID.isInteger(text), text.utf8.count <= Self.maximumBytes, text != "-0" {
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
