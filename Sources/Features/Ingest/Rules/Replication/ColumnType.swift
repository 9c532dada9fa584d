import FoundationEssentials
import JSONText
package import SyncModel

/// How values of a type are written as JSON. The oids of built-in types are the same on all servers.
enum ColumnType: Sendable, Hashable {
    case bool, integer, number, json, bytes, timestamp, text
    indirect case array(of: ColumnType)

    init(_ oid: UInt32) {
        if let scalar = Self.scalars[oid] {
            self = scalar
        } else if let element = Self.arrays[oid] {
            self = .array(of: Self.scalars[element] ?? .text)
        } else {
            self = Self.textArrays.contains(oid) ? .array(of: .text) : .text
        }
    }

    private static let scalars: [UInt32: ColumnType] = [
        16: .bool, 17: .bytes,
        // int8, int2, int4, oid
        20: .integer, 21: .integer, 23: .integer, 26: .integer,
        // json, jsonb
        114: .json, 3802: .json,
        // float4, float8, numeric
        700: .number, 701: .number, 1700: .number,
        // timestamp, which is interpreted as UTC, and timestamptz
        1114: .timestamp, 1184: .timestamp,
    ]

    /// The element type of each array type whose elements are not written as text.
    private static let arrays: [UInt32: UInt32] = [
        1000: 16, 1001: 17, 1016: 20, 1005: 21, 1007: 23, 1028: 26, 199: 114, 3807: 3802, 1021: 700, 1022: 701,
        1231: 1700, 1115: 1114, 1185: 1184,
    ]

    /// The built-in array types whose elements are written as text.
    ///
    /// The list is `pg_type` of PostgreSQL 15 without `box[]` (1020): its delimiter is a semicolon.
    private static let textArrays: Set<UInt32> = [
        143, 271, 629, 651, 719, 775, 791, 1002, 1003, 1006, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 1017, 1018,
        1019, 1027, 1034, 1040, 1041, 1182, 1183, 1187, 1263, 1270, 1561, 1563, 2201, 2207, 2208, 2209, 2210, 2211,
        2949,
        2951, 3221, 3643, 3644, 3645, 3735, 3770, 3905, 3907, 3909, 3911, 3913, 3927, 4073, 4090, 4097, 4192, 5039,
        6150,
        6151, 6152, 6153, 6155, 6157,
    ]

    /// Writes a value of the type.
    ///
    /// A value in an unexpected format is written unchanged, as a string. The output is therefore valid JSON for each
    /// value that a server sends. Only values of the types `json` and `jsonb` are not checked here; the reader of the
    /// document checks them.
    func write(_ text: ArraySlice<UInt8>, to writer: inout JSONWriter) {
        switch self {
        case .bool:
            switch text {
            case [UInt8(ascii: "t")]: writer.bool(true)
            case [UInt8(ascii: "f")]: writer.bool(false)
            default: Self.write(string: text, to: &writer)
            }
        case .integer, .number:
            // NaN and the infinities are not valid JSON numbers, and are written as strings
            if Self.isNumber(text) { writer.raw(text) } else { Self.write(string: text, to: &writer) }
        case .json: writer.raw(text)
        case .bytes:
            if let bytes = Self.bytes(text) {
                writer.string(Data(bytes).base64EncodedString())
            } else {
                Self.write(string: text, to: &writer)
            }
        case .timestamp:
            guard let timestamp = Self.timestamp(text) else { return Self.write(string: text, to: &writer) }
            writer.string(timestamp)
        case .text: Self.write(string: text, to: &writer)
        case .array(let element):
            guard let items = ArrayLiteral.items(text) else { return Self.write(string: text, to: &writer) }
            Self.write(items, of: element, to: &writer)
        }
    }

    private static func write(_ items: [ArrayLiteral.Item], of element: ColumnType, to writer: inout JSONWriter) {
        writer.beginArray()
        for item in items {
            switch item {
            case .null: writer.null()
            case .text(let text): element.write(text[...], to: &writer)
            case .array(let items): write(items, of: element, to: &writer)
            }
        }
        writer.endArray()
    }

    /// Writes a text.
    ///
    /// A database with the encoding SQL_ASCII may contain text that is not UTF-8. Such a text makes the JSON invalid,
    /// so that the row is refused. If invalid bytes were replaced instead, rows with different ids could become one
    /// entity.
    private static func write(string text: ArraySlice<UInt8>, to writer: inout JSONWriter) {
        guard let string = String(validating: text, as: UTF8.self) else { return writer.raw([0x22, 0xff, 0x22]) }
        writer.string(string)
    }

    /// Whether a text is a JSON number (RFC 8259, section 6).
    static func isNumber(_ text: ArraySlice<UInt8>) -> Bool {
        var rest = text
        func digits() -> Int {
            let count = rest.prefix { (48...57).contains($0) }.count
            rest = rest.dropFirst(count)
            return count
        }
        if rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
        let isZero = rest.first == UInt8(ascii: "0")
        let whole = digits()
        guard whole > 0, !isZero || whole == 1 else { return false }
        if rest.first == UInt8(ascii: ".") {
            rest = rest.dropFirst()
            guard digits() > 0 else { return false }
        }
        if rest.first == UInt8(ascii: "e") || rest.first == UInt8(ascii: "E") {
            rest = rest.dropFirst()
            if rest.first == UInt8(ascii: "+") || rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
            guard digits() > 0 else { return false }
        }
        return rest.isEmpty
    }

    /// Reads `\x` and two hexadecimal digits for each byte.
    private static func bytes(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.starts(with: [UInt8(ascii: "\\"), UInt8(ascii: "x")]), text.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        var index = text.startIndex + 2
        while index < text.endIndex {
            guard let high = digit(text[index]), let low = digit(text[index + 1]) else { return nil }
            bytes.append(high << 4 | low)
            index += 2
        }
        return bytes
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 48...57: byte - 48
        case 97...102: byte - 87
        default: nil
        }
    }

    /// Converts a time such as `2026-11-24 04:30:00.5` or `2026-11-24 04:30:00.5+00` to its RFC 3339 form.
    ///
    /// Returns nil for infinity, for years before 1, and for years after 9999.
    private static func timestamp(_ text: ArraySlice<UInt8>) -> String? {
        var bytes = Array(text)
        if bytes.suffix(3) == [UInt8(ascii: "+"), 48, 48] { bytes.removeLast(3) }
        let digits: Set<Int> = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
        let marks = [4: UInt8(ascii: "-"), 7: UInt8(ascii: "-"), 10: 32, 13: UInt8(ascii: ":"), 16: UInt8(ascii: ":")]
        guard bytes.count >= 19,
            bytes.prefix(19).enumerated().allSatisfy({ index, byte in
                marks[index].map { $0 == byte } ?? (digits.contains(index) && (48...57).contains(byte))
            })
        else { return nil }
        let fraction = bytes.dropFirst(19)
        guard fraction.isEmpty || fraction.first == UInt8(ascii: "."),
            fraction.dropFirst().allSatisfy({ (48...57).contains($0) }), fraction.count != 1
        else { return nil }
        bytes[10] = UInt8(ascii: "T")
        return String(decoding: bytes, as: UTF8.self) + "Z"
    }
}

/// A column's value in the log.
package enum ColumnValue: Sendable, Hashable {
    case null
    /// A large value that did not change. PostgreSQL does not write such a value to the log.
    case unchanged
    /// The text that the type's output function returned. Dates have the ISO format, and times are in UTC.
    case text([UInt8])
}

/// A column, as the log describes it.
package struct FollowedColumn: Sendable, Hashable {
    @Exact package private(set) var name: String
    /// The oid of a built-in type. 25 (`text`) represents all types that are read as text.
    package let type: UInt32
    /// Whether the column belongs to the key that identifies a row.
    package let isKey: Bool

    package init(name: String, type: UInt32, isKey: Bool) {
        self.name = name
        self.type = type
        self.isKey = isKey
    }
}

// MARK: - ArrayLiteral

/// An array as PostgreSQL writes it: `{1,NULL,"a \"b\"",{…}}`.
enum ArrayLiteral {
    indirect enum Item: Hashable {
        case null
        case text([UInt8])
        case array([Item])
    }

    /// The maximum number of dimensions of an array in PostgreSQL.
    private static let depth = 6

    /// Returns the items. Returns nil for invalid text, and for an array with a prefix for lower bounds other than 1.
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
