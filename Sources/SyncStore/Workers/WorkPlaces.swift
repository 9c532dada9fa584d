package import FoundationEssentials
import Synchronization

/// An item that a ``LeasedWorker`` works on.
package protocol WorkItem: Sendable {
    var organization: UUID { get }
}

/// Bounds the items that one replica works on at the same time, and lets organizations take turns.
package protocol WorkPlaces<Item>: Sendable {
    associatedtype Item: Sendable

    /// Whether an item of any organization could get a place now.
    var hasRoom: Bool { get }

    /// Takes places for items, one organization after another.
    ///
    /// - Returns: the items that got places, and whether others lack one because too many are taken.
    func take(_ items: [Item]) -> (taken: [Item], isCrowded: Bool)

    func release(_ item: Item)

    /// Measures what the decisions depend on, until the task is cancelled.
    func run() async
}

extension WorkPlaces {
    package func run() async {}
}

/// Places of a worker that claims while it searches. It checks for free places before it claims, so every item gets its
/// place.
package final class ClaimedPlaces<Item: WorkItem>: WorkPlaces {
    private let limit: Int
    private let counts = Mutex([UUID: Int]())

    package init(_ limit: Int) { self.limit = limit }

    package var count: Int { counts.withLock { $0.values.reduce(0, +) } }
    package var hasRoom: Bool { count < limit }
    /// The number of items of each organization that has any.
    package var held: [UUID: Int] { counts.withLock(\.self) }

    package func take(_ items: [Item]) -> (taken: [Item], isCrowded: Bool) {
        counts.withLock { counts in
            for item in items { counts[item.organization, default: 0] += 1 }
        }
        return (items, false)
    }

    package func release(_ item: Item) {
        counts.withLock { counts in
            let remaining = (counts[item.organization] ?? 1) - 1
            counts[item.organization] = remaining > 0 ? remaining : nil
        }
    }
}
