import Foundation

/// Lists of ids as one list and 1-based bounds, both inclusive, as Postgres' array slices take them: `unnest` makes no
/// arrays of arrays.
struct IDLists {
    private(set) var ids: [UUID] = []
    private(set) var from: [Int32] = []
    private(set) var to: [Int32] = []

    init(_ lists: [[UUID]]) {
        for list in lists {
            from.append(Int32(ids.count + 1))
            ids += list
            to.append(Int32(ids.count))
        }
    }
}
