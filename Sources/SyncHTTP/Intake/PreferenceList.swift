/// The preferences of a `Prefer` field: `name[=value][;parameter…]`, separated by commas. Values may be quoted.
package struct PreferenceList: Sequence, IteratorProtocol {
    private static let delimiters = [UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "=")]

    private var rest: Substring.UTF8View

    package init(_ text: String) {
        rest = text[...].utf8
    }

    /// Returns the next preference: its name in lower case, and its value, which is empty if the preference has no
    /// value.
    package mutating func next() -> (name: String, value: String)? {
        while true {
            skip { $0.isBlank || $0 == UInt8(ascii: ",") }
            guard !rest.isEmpty else { return nil }
            let name = token()
            let value = valueAfterEquals()
            // skips parameters and all other text before the next comma
            skipToComma()
            if !name.isEmpty { return (name.lowercased(), value) }
        }
    }

    private mutating func valueAfterEquals() -> String {
        skip { $0.isBlank }
        guard rest.first == UInt8(ascii: "=") else { return "" }
        rest.removeFirst()
        skip { $0.isBlank }
        return rest.first == UInt8(ascii: "\"") ? quoted() : token()
    }

    private mutating func token() -> String {
        let token = rest.prefix { !$0.isBlank && !Self.delimiters.contains($0) }
        rest = rest[token.endIndex...]
        return String(Substring(token))
    }

    /// Reads a quoted string (RFC 9110, 5.6.4). A string without a closing quote extends to the end of the field.
    private mutating func quoted() -> String {
        var bytes: [UInt8] = []
        rest.removeFirst()
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\"") { break }
            if byte == UInt8(ascii: "\\"), let escaped = rest.popFirst() {
                bytes.append(escaped)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private mutating func skipToComma() {
        while let byte = rest.first, byte != UInt8(ascii: ",") {
            if byte == UInt8(ascii: "\"") { _ = quoted() } else { rest.removeFirst() }
        }
    }

    private mutating func skip(while matches: (UInt8) -> Bool) {
        while let byte = rest.first, matches(byte) { rest.removeFirst() }
    }
}
