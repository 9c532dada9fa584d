import Foundation

/// Lists of ids as one list and 1-based bounds, both inclusive.
///
/// This is how Postgres' array slices take them: `unnest` cannot make arrays of arrays.
struct FlattenedLists {
    /// The place of one list.
    struct Bounds {
        var from: Int32 = 1
        var to: Int32 = 0

        var isEmpty: Bool { to < from }
    }

    private(set) var ids: [UUID] = []

    mutating func add(_ list: [UUID]) -> Bounds {
        let from = Int32(ids.count + 1)
        ids += list
        return Bounds(from: from, to: Int32(ids.count))
    }
}
