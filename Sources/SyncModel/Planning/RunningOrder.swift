import FoundationEssentials

/// The order in which the entries of a push run (product rule 1).
///
/// Entries run in the order of their sequence numbers, which can differ from their order in the push. Among entries
/// with equal numbers, an entry runs after its dependencies. Otherwise the entry with the higher priority runs first.
/// Among equal priorities, the order in the push decides.
struct RunningOrder {
    /// Indices of the valid entries, in running order.
    private(set) var order: [Int] = []
    /// Entries with equal sequence numbers that depend on each other in a cycle.
    private(set) var cyclic: Set<Int> = []

    init(_ entries: [PushEntry], priority: (Mutation) -> Int16) {
        let valid = entries.filter { $0.mutation != nil }
        let sorted = valid.sorted { left, right in
            let (a, b) = (left.sequenceNumber ?? 0, right.sequenceNumber ?? 0)
            return a != b ? a < b : left.index < right.index
        }
        order.reserveCapacity(sorted.count)
        var start = 0
        while start < sorted.count {
            var end = start + 1
            while end < sorted.count, sorted[end].sequenceNumber == sorted[start].sequenceNumber { end += 1 }
            if end - start == 1 {
                order.append(sorted[start].index)
            } else {
                arrange(sorted[start..<end].compactMap { entry in entry.mutation.map { (entry.index, $0) } }, priority)
            }
            start = end
        }
    }

    /// Sorts entries with equal sequence numbers by Kahn's algorithm.
    ///
    /// Among the entries without open dependencies, the entry with the highest priority comes first. Among equal
    /// priorities, the order in the push decides.
    private mutating func arrange(_ group: [(index: Int, mutation: Mutation)], _ priority: (Mutation) -> Int16) {
        var owner: [UUID: [Int]] = [:]
        for (place, item) in group.enumerated() {
            owner[item.mutation.id, default: []].append(place)
            if let created = item.mutation.created { owner[created.clientID, default: []].append(place) }
        }
        var waitsFor = [Int](repeating: 0, count: group.count)
        var dependants = [[Int]](repeating: [], count: group.count)
        for (place, item) in group.enumerated() {
            var needed = Set<Int>()
            let mutation = item.mutation
            let created = mutation.created?.clientID
            let target = created == nil ? [mutation.entity.clientID].compactMap { $0 } : []
            // a create does not wait for itself if its payload contains its own client id
            for id in mutation.dependencyIDs + mutation.references + target where id != created {
                // a mutation's dependency on itself does not affect the order, even if the push contains the mutation
                // several times
                for other in owner[id] ?? [] where group[other].mutation.id != mutation.id { needed.insert(other) }
            }
            waitsFor[place] = needed.count
            for other in needed { dependants[other].append(place) }
        }
        var free = group.indices.filter { waitsFor[$0] == 0 }
        var placed = 0
        while let next = free.min(by: { isBefore(group[$0], group[$1], priority) }) {
            free.removeAll { $0 == next }
            order.append(group[next].index)
            placed += 1
            for place in dependants[next] {
                waitsFor[place] -= 1
                if waitsFor[place] == 0 { free.append(place) }
            }
        }
        guard placed < group.count else { return }
        for place in group.indices where waitsFor[place] > 0 {
            cyclic.insert(group[place].index)
            order.append(group[place].index)
        }
    }

    private func isBefore(
        _ left: (index: Int, mutation: Mutation),
        _ right: (index: Int, mutation: Mutation),
        _ priority: (Mutation) -> Int16
    ) -> Bool {
        let (a, b) = (priority(left.mutation), priority(right.mutation))
        return a != b ? a > b : left.index < right.index
    }
}
