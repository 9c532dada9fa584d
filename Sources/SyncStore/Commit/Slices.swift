import Foundation

/// Lists of ids as one list and 1-based bounds, both inclusive, as Postgres' array slices take them.
struct Slices {
    var ids: [UUID] = []
    var from: [Int32] = []
    var to: [Int32] = []

    init(_ lists: [[UUID]]) {
        for list in lists {
            from.append(Int32(ids.count + 1))
            ids += list
            to.append(Int32(ids.count))
        }
    }
}
