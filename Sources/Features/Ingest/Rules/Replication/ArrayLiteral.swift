import SyncModel

/// An array as PostgreSQL writes it: `{1,NULL,"a \"b\"",{…}}`.
enum ArrayLiteral {
    indirect enum Item: Hashable {
        case null
        case text([UInt8])
        case array([Item])
    }

    /// As deep as the server makes them.
    private static let depth = 6

    /// Returns the items; nil for other text, and for an array with a prefix that declares a lower bound other than 1.
    static func items(_ text: ArraySlice<UInt8>) -> [Item]? {
        var rest = text
        guard let items = items(&rest, depth), rest.isEmpty else { return nil }
        return items
    }

    private static func items(_ rest: inout ArraySlice<UInt8>, _ depth: Int) -> [Item]? {
        guard depth > 0, rest.popFirst() == UInt8(ascii: "{") else { return nil }
        var items: [Item] = []
        if rest.first == UInt8(ascii: "}") {
            rest.removeFirst()
            return items
        }
        while true {
            guard let item = item(&rest, depth) else { return nil }
            items.append(item)
            switch rest.popFirst() {
            case UInt8(ascii: ","): continue
            case UInt8(ascii: "}"): return items
            default: return nil
            }
        }
    }

    private static func item(_ rest: inout ArraySlice<UInt8>, _ depth: Int) -> Item? {
        switch rest.first {
        case UInt8(ascii: "{"): return items(&rest, depth - 1).map(Item.array)
        case UInt8(ascii: "\""): return quoted(&rest).map(Item.text)
        default:
            var text: [UInt8] = []
            while let byte = rest.first, byte != UInt8(ascii: ","), byte != UInt8(ascii: "}") {
                rest.removeFirst()
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "{") { return nil }
                guard byte == UInt8(ascii: "\\") else {
                    text.append(byte)
                    continue
                }
                guard let escaped = rest.popFirst() else { return nil }
                text.append(escaped)
            }
            if text.isEmpty { return nil }
            return text == Array("NULL".utf8) ? .null : .text(text)
        }
    }

    private static func quoted(_ rest: inout ArraySlice<UInt8>) -> [UInt8]? {
        rest.removeFirst()
        var text: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return text
            case UInt8(ascii: "\\"):
                guard let escaped = rest.popFirst() else { return nil }
                text.append(escaped)
            default: text.append(byte)
            }
        }
        return nil
    }
}
