import SyncModel

/// The result of sealing an organization's rows.
package struct SealedRows: Sendable, Hashable {
    package var examined = 0
    /// Rows that were written anew.
    package var sealed = 0
    /// Values that cannot be opened and were left unchanged.
    package var unreadable = 0
    /// The first of these in words, for an operator; they name rows, and no content.
    package var unreadableValues: [String] = []
    /// Values that are named at most.
    package static let namedValues = 20
    /// Data keys that were dropped, because no value is sealed under them any more.
    package var droppedKeys = 0
    /// Whether a value stays under an older data key that another configuration can open.
    private(set) var needsOlderKeys = false

    /// Notes values that cannot be opened, and why.
    mutating func leave(_ closed: [(place: SealedPlace, error: SealError)], _ seal: Seal) {
        unreadable += closed.count
        for (place, error) in closed {
            if unreadableValues.count < Self.namedValues {
                unreadableValues.append("\(place.name) in \(place.row): \(error)")
            }
            if case .closedUserKey = error { needsOlderKeys = true }
            if case .unknownKey(let number) = error, seal.isThere(number) { needsOlderKeys = true }
        }
    }
}
