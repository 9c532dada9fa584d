import SyncModel

/// The result of sealing an organization's rows.
package struct SealedRows: Sendable, Hashable {
    package var examined = 0

    package init() {}

    /// Rows that were written again.
    package var sealed = 0
    /// Values that cannot be opened and were left unchanged.
    package var unreadable = 0
    /// Texts about the first of these, for an operator; they name rows, and no content.
    package var unreadableValues: [String] = []
    /// Values that are named at most.
    package static let namedValues = 20
    /// Older data keys that were dropped: no value is sealed under them any more.
    package var droppedKeys = 0
    /// Older data keys that are kept, because unopened values may be under them.
    package var keptKeys = 0
    /// The data keys that values which were left are under.
    package private(set) var neededKeys: Set<Int32> = []
    /// Whether one of these values does not name its key.
    package private(set) var mayNeedAnyKey = false

    /// Records values that cannot be opened, and why.
    package mutating func leave(_ closed: [Renewal.Closed]) {
        unreadable += closed.count
        for value in closed {
            if unreadableValues.count < Self.namedValues {
                unreadableValues.append("\(value.place.name) in \(value.place.row): \(value.error)")
            }
            switch value.cover {
            case .plain: break
            case .keys(let number, _): neededKeys.insert(number)
            case .unknown: mayNeedAnyKey = true
            }
        }
    }
}
