import Foundation
import GRDB

/// What a column holds, and what the member of a document is.
extension SyncedColumn {
    /// The member of a column's value; nil for NULL, which is an absent member.
    ///
    /// - Throws: ``SluiceError/invalid(_:)`` for a value that is not of the column's kind.
    func json(of value: DatabaseValue, _ map: EntityMap) throws -> JSON? {
        if value.isNull { return nil }
        guard let json = try member(of: value, map) else {
            throw SluiceError.invalid("column '\(name)' has a value that its kind cannot write: \(value)")
        }
        return json
    }

    private func member(of value: DatabaseValue, _ map: EntityMap) throws -> JSON? {
        switch kind {
        case .text: String.fromDatabaseValue(value).map(JSON.string)
        case .integer: Int64.fromDatabaseValue(value).map(JSON.integer)
        case .real: Double.fromDatabaseValue(value).flatMap { JSONNumber($0) }.map(JSON.number)
        case .decimal:
            switch value.storage {
            case .string(let text): JSON.number(text)
            case .int64(let number): .integer(number)
            case .double(let number): JSONNumber(number).map(JSON.number)
            default: nil
            }
        case .bool: Bool.fromDatabaseValue(value).map(JSON.bool)
        case .date(let storage): storage.date(of: value).flatMap { $0.isWritable ? .string($0.rfc3339) : nil }
        case .data: Data.fromDatabaseValue(value).map { .string($0.base64EncodedString()) }
        case .uuid: UUID.fromDatabaseValue(value).map { .string($0.uuidString.lowercased()) }
        case .reference(let type):
            try map.entity(type).key.text(of: value).map { try map.entity(type).key.json(of: $0) }
        case .json: try String.fromDatabaseValue(value).map { try JSON(parsing: $0) }
        }
    }

    /// The column's value of a member; nil where it does not fit.
    func databaseValue(of json: JSON?, _ map: EntityMap) -> DatabaseValue? {
        guard let json, !json.isNull else { return .null }
        switch kind {
        case .text: return json.string?.databaseValue
        case .integer: return json.int64?.databaseValue
        case .real: return json.double.flatMap { $0.isFinite ? $0.databaseValue : nil }
        case .decimal: if case .number(let number) = json { return number.text.databaseValue } else { return nil }
        case .bool: return json.bool?.databaseValue
        case .date(let storage):
            return json.string.flatMap(Date.init(rfc3339:)).map(storage.databaseValue)
        case .data: return json.string.flatMap { Data(base64Encoded: $0) }?.databaseValue
        case .uuid(let storage): return json.string.flatMap(UUID.init(uuidString:)).map(storage.databaseValue)
        case .reference(let type):
            guard let key = map[type]?.key else { return nil }
            return key.text(of: json).flatMap(key.databaseValue(of:))
        case .json: return json.text.databaseValue
        }
    }
}

extension DateStorage {
    func date(of value: DatabaseValue) -> Date? {
        switch self {
        case .text, .rfc3339: Date.fromDatabaseValue(value)
        case .secondsSince1970: Double.fromDatabaseValue(value).map(Date.init(timeIntervalSince1970:))
        }
    }

    func databaseValue(_ date: Date) -> DatabaseValue {
        switch self {
        case .text: date.databaseValue
        case .rfc3339: date.rfc3339.databaseValue
        case .secondsSince1970: date.timeIntervalSince1970.databaseValue
        }
    }
}

extension Date {
    /// RFC 3339 in UTC with milliseconds, as the gateway writes moments. GRDB's text differs by two characters.
    var rfc3339: String {
        guard case .string(let text) = databaseValue.storage else { return "" }
        return text.replacingOccurrences(of: " ", with: "T") + "Z"
    }

    /// - Returns: nil for what is no moment of RFC 3339 (5.6), `12:30` and `2026-01-15` among it, of which GRDB would
    ///   make one, and for years in which calendars differ.
    init?(rfc3339 text: String) {
        guard Self.hasShape(text), let date = Date.fromDatabaseValue(text.uppercased().databaseValue), date.isWritable
        else { return nil }
        self = date
    }

    /// `2026-01-15T12:30:00`, a fraction or none, and `Z` or `+01:00`. By bytes: a regular expression takes longer than
    /// everything else that is done with a row.
    private static func hasShape(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, zip("dddd-dd-ddTdd:dd:dd".utf8, bytes).allSatisfy(fits) else { return false }
        func number(_ start: Int) -> UInt8 { (bytes[start] - zero) * 10 + (bytes[start + 1] - zero) }
        guard (1...12).contains(number(5)), (1...31).contains(number(8)), number(11) < 24, number(14) < 60,
            number(17) <= 60
        else { return false }
        var rest = bytes[19...]
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { fits(UInt8(ascii: "d"), $0) }
            guard !digits.isEmpty else { return false }
            rest = rest[digits.endIndex...]
        }
        return ["Z", "+dd:dd", "-dd:dd"].contains { pattern in
            pattern.utf8.count == rest.count && zip(pattern.utf8, rest).allSatisfy(fits)
        }
    }

    private static let zero = UInt8(ascii: "0")

    /// Whether a byte is what a pattern asks for: a digit where that has a `d`, else itself, in whichever case.
    private static func fits(_ pattern: UInt8, _ byte: UInt8) -> Bool {
        pattern == UInt8(ascii: "d") ? byte >= zero && byte <= zero + 9 : byte == pattern || byte == pattern | 0x20
    }

    /// Whether RFC 3339 can write it, and every calendar writes it alike: the years 1583 to 9999.
    var isWritable: Bool { (-12_212_553_600..<253_402_300_800).contains(timeIntervalSince1970) }
}
