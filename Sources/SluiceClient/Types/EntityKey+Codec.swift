import Foundation
import GRDB

/// A key has three forms: the value in the app's column, the library's text (a lower-case UUID, decimal digits, or the
/// text itself), and the JSON in documents.
extension EntityKey {
    /// Returns the library's text of a column value; nil for a value that is not a key of this kind.
    func text(of value: DatabaseValue) -> String? {
        switch kind {
        case .uuid: UUID.fromDatabaseValue(value)?.wire
        case .integer: Int64.fromDatabaseValue(value).map { String($0) }
        case .text: String.fromDatabaseValue(value)
        }
    }

    /// Returns the column value for a key's text; nil if the column cannot hold the key.
    func databaseValue(of text: String) -> DatabaseValue? {
        switch kind {
        case .uuid(let storage): UUID(text: text).map(storage.databaseValue)
        case .integer: Int64(text)?.databaseValue
        case .text: text.databaseValue
        }
    }

    /// Returns the key as it is stored in documents on the phone.
    func json(of text: String) -> JSON {
        if kind == .integer, let value = Int64(text) { .integer(value) } else { .string(text) }
    }

    /// Returns the key's text for a value in a document; nil for a value that is not a key of this kind.
    func text(of json: JSON) -> String? {
        switch kind {
        case .uuid: json.string.flatMap(UUID.init(text:))?.wire
        case .integer: json.int64.map { String($0) }
        case .text: json.string
        }
    }
}

extension UUIDStorage {
    func databaseValue(_ uuid: UUID) -> DatabaseValue {
        switch self {
        case .bytes: uuid.databaseValue
        case .lowercaseText: uuid.wire.databaseValue
        case .uppercaseText: uuid.uuidString.databaseValue
        }
    }
}
