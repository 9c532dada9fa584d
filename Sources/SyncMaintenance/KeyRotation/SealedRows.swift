import SyncModel

/// What became of an organization whose rows were to be sealed.
package struct SealedRows: Sendable, Hashable {
    package var examined = 0
    /// Rows that were written anew.
    package var sealed = 0
    /// Values that cannot be opened; they were left as they are.
    package var unreadable = 0
    /// The first of these in words, for an operator to look at; they name rows, and no content.
    package var unreadableValues: [String] = []
    /// How many are named at most.
    package static let namedValues = 20
    /// Data keys that were dropped, because nothing is sealed under them any more.
    package var droppedKeys = 0
    /// Whether a value is left under an older data key that another configuration opens.
    private(set) var needsOlderKeys = false

    /// Notes values that do not open, and why.
    mutating func leave(_ closed: [(place: SealedPlace, error: SealError)], _ seal: Seal) {
        unreadable += closed.count
        for (place, error) in closed {
            if unreadableValues.count < Self.namedValues {
                unreadableValues.append("\(place.name) in \(place.row): \(error)")
            }
            if case .unknownKey(let number) = error, seal.isThere(number) { needsOlderKeys = true }
        }
    }
}
