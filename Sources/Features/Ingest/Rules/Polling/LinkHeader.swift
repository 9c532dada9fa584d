import SyncModel

/// Reads the header `Link` (RFC 8288, appendix B.2), leniently: a syntax error ends the reading of its value.
enum LinkHeader {
    /// The target of the first link whose relation to the response is `next`; nil if there is no such link.
    static func next(in values: [String]) -> String? {
        for value in values {
            var reader = Reader(value)
            while let link = reader.link() {
                if link.isNext { return link.target }
            }
        }
        return nil
    }

    private struct Reader {
        private var rest: Substring.UTF8View

        init(_ text: String) {
            rest = Substring(text).utf8
        }

        mutating func link() -> (target: String, isNext: Bool)? {
            skip { Self.isSpace($0) || $0 == UInt8(ascii: ",") }
            guard take("<"), let end = rest.firstIndex(of: UInt8(ascii: ">")) else { return nil }
            let target = Self.text(rest[..<end])
            rest = rest[rest.index(after: end)...]
            // the first rel counts
            var relations: String?
            var isOfAnother = false
            while true {
                skip(Self.isSpace)
                guard take(";") else { break }
                skip { Self.isSpace($0) || $0 == UInt8(ascii: ";") }
                guard let (name, value) = parameter() else { break }
                switch name.lowercased() {
                case "rel": relations = relations ?? value
                case "anchor": isOfAnother = true
                default: break
                }
            }
            let names = relations?.replacing("\t", with: " ").split(separator: " ") ?? []
            return (target, !isOfAnother && names.contains { $0.lowercased() == "next" })
        }

        private mutating func parameter() -> (name: String, value: String)? {
            let name = Self.text(takeWhile { !Self.isSpace($0) && !Self.ends($0) && $0 != UInt8(ascii: "=") })
            skip(Self.isSpace)
            guard take("=") else { return name.isEmpty ? nil : (name, "") }
            skip(Self.isSpace)
            guard take("\"") else { return (name, Self.text(takeWhile { !Self.isSpace($0) && !Self.ends($0) })) }
            var value: [UInt8] = []
            while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
                guard byte == UInt8(ascii: "\\") else {
                    value.append(byte)
                    continue
                }
                if let escaped = rest.popFirst() { value.append(escaped) }
            }
            return (name, String(decoding: value, as: UTF8.self))
        }

        private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: scalar) else { return false }
            rest.removeFirst()
            return true
        }

        private mutating func takeWhile(_ condition: (UInt8) -> Bool) -> Substring.UTF8View {
            let taken = rest.prefix(while: condition)
            rest = rest[taken.endIndex...]
            return taken
        }

        private mutating func skip(_ condition: (UInt8) -> Bool) { _ = takeWhile(condition) }

        private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

        private static func ends(_ byte: UInt8) -> Bool { byte == UInt8(ascii: ";") || byte == UInt8(ascii: ",") }

        private static func text(_ bytes: Substring.UTF8View) -> String { String(decoding: bytes, as: UTF8.self) }
    }
}
