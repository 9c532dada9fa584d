/// A column of the app's table that corresponds to a member of the gateway's documents.
///
/// A column with NULL corresponds to an absent member. If a member does not fit its column, the row is held
/// (``SyncStatus/held``). Nothing is lost, because the library keeps the document.
public struct SyncedColumn: Sendable, Hashable {
    enum Kind: Sendable, Hashable {
        case text
        case integer
        case real
        case decimal
        case bool
        case date(DateStorage)
        case data
        case uuid(UUIDStorage)
        /// The key of a row of this entity type.
        case reference(String)
        case json([ReferencePath])
    }

    /// The column's name.
    public let name: String
    /// The name of the member at the top level of the document.
    public let member: String
    let kind: Kind

    private init(_ name: String, _ member: String?, _ kind: Kind) {
        self.name = name
        self.member = member ?? name
        self.kind = kind
    }

    /// A string. `member` is the member's name, if it differs from the column's name.
    public static func text(_ name: String, as member: String? = nil) -> SyncedColumn { .init(name, member, .text) }

    /// A whole number of 64 bits.
    public static func integer(_ name: String, as member: String? = nil) -> SyncedColumn {
        .init(name, member, .integer)
    }

    /// A number in binary floating point. The conversion may change digits, so use it for measurements, but not for
    /// money.
    public static func real(_ name: String, as member: String? = nil) -> SyncedColumn { .init(name, member, .real) }

    /// A number that keeps all its digits, such as `129.90`.
    ///
    /// The column must be declared as TEXT, because SQLite rounds numbers of more than 15 digits in a NUMERIC column.
    /// To compute with the number in SQL, convert it by `CAST(amount AS REAL)`.
    public static func decimal(_ name: String, as member: String? = nil) -> SyncedColumn {
        .init(name, member, .decimal)
    }

    /// `true` or `false`, stored as 1 or 0 in the column.
    public static func bool(_ name: String, as member: String? = nil) -> SyncedColumn { .init(name, member, .bool) }

    /// A time in the years 1583 to 9999. The member is a string of RFC 3339, in UTC and with milliseconds.
    public static func date(
        _ name: String,
        as member: String? = nil,
        stored storage: DateStorage = .text
    ) -> SyncedColumn {
        .init(name, member, .date(storage))
    }

    /// Bytes. The member is a string in base64.
    public static func data(_ name: String, as member: String? = nil) -> SyncedColumn { .init(name, member, .data) }

    /// A UUID that does not reference a synchronized row. For references to synchronized rows, use
    /// ``reference(_:as:to:)``.
    public static func uuid(
        _ name: String,
        as member: String? = nil,
        stored storage: UUIDStorage = .bytes
    ) -> SyncedColumn {
        .init(name, member, .uuid(storage))
    }

    /// Any JSON value. The column contains the JSON as text.
    ///
    /// - Parameter references: the entity types of the ids in the value, by the path to the ids. Examples are `/owner`
    ///   and `/lines/*/product`, where `*` means every element of an array or every member of an object.
    public static func json(
        _ name: String,
        as member: String? = nil,
        references: [String: String] = [:]
    ) -> SyncedColumn {
        let paths = references.sorted { $0.key < $1.key }.map { ReferencePath($0.key, to: $0.value) }
        return .init(name, member, .json(paths))
    }

    /// The key of a row of another entity type, or of the same type.
    ///
    /// If the column is part of a foreign key, the library writes a row only after the referenced row exists.
    public static func reference(_ name: String, as member: String? = nil, to entityType: String) -> SyncedColumn {
        .init(name, member, .reference(entityType))
    }

    /// Keys of rows of another entity type. The column contains a JSON array as text.
    public static func references(_ name: String, as member: String? = nil, to entityType: String) -> SyncedColumn {
        .init(name, member, .json([ReferencePath("/*", to: entityType)]))
    }
}

/// The format of a time in a column.
public enum DateStorage: Sendable, Hashable {
    /// The form `2026-01-15 12:30:00.000` in UTC, in which GRDB stores a `Date`.
    case text
    /// The form `2026-01-15T12:30:00.000Z`.
    case rfc3339
    /// Seconds since 1970, as a REAL or INTEGER.
    case secondsSince1970
}
