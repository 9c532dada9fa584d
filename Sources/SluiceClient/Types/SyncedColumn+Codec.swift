import Foundation
import GRDB

/// Converts between a column's value and the member of a document.
extension SyncedColumn {
    /// Returns the member for a column's value; nil for NULL, which corresponds to an absent member.
    ///
    /// - Throws: ``SluiceError/invalid(_:)`` for a value that is not of the column's kind.
    func json(of value: DatabaseValue, _ map: EntityMap) throws -> JSON? {
        if value.isNull { return nil }
        guard let json = try member(of: value, map) else {
            throw SluiceError.invalid("column '\(name)' has a value that does not fit its kind: \(value)")
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
        case .uuid: UUID.fromDatabaseValue(value).map { .string($0.wire) }
        case .reference(let type):
            try map.entity(type).key.text(of: value).map { try map.entity(type).key.json(of: $0) }
        case .json: String.fromDatabaseValue(value).flatMap { try? JSON(parsing: $0) }
        }
    }

    /// Returns the column's value for a member; nil if the member does not fit the column.
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
        case .uuid(let storage): return json.string.flatMap(UUID.init(text:)).map(storage.databaseValue)
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
        case .text, .rfc3339:
            String.fromDatabaseValue(value).flatMap(Date.init(sqlite:)) ?? Date.fromDatabaseValue(value)
        case .secondsSince1970: Double.fromDatabaseValue(value).map(Date.init(timeIntervalSince1970:))
        }
    }

    func databaseValue(_ date: Date) -> DatabaseValue {
        switch self {
        case .text: date.sqlite.databaseValue
        case .rfc3339: date.rfc3339.databaseValue
        case .secondsSince1970: date.timeIntervalSince1970.databaseValue
        }
    }
}
