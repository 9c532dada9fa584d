package import SyncModel

/// A column's value in the log.
package enum ColumnValue: Sendable, Hashable {
    case null
    /// A large value that was not changed, and so is not in the log.
    case unchanged
    /// As the type's output function writes it, with ISO dates in UTC.
    case text([UInt8])
}

/// A column as described in the log.
package struct FollowedColumn: Sendable, Hashable {
    @Exact package private(set) var name: String
    /// The number of a built-in type; 25, `text`, for all that are read as that.
    package let type: UInt32
    /// Whether it is one of those that identify a row.
    package let isKey: Bool

    package init(name: String, type: UInt32, isKey: Bool) {
        self.name = name
        self.type = type
        self.isKey = isKey
    }
}
