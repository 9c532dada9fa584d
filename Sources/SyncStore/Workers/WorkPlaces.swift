package import FoundationEssentials
import Synchronization

/// An item that a ``LeasedWorker`` processes.
package protocol WorkItem: Sendable {
    var organization: UUID { get }
}

/// Limits the items that one replica processes at the same time. An item has a place while it is processed.
/// Organizations take turns.
package protocol WorkPlaces<Item>: Sendable {
    associatedtype Item: Sendable

    /// Whether an item of any organization could get a place now.
    var hasRoom: Bool { get }

    /// Assigns places to items, one organization after another.
    ///
    /// - Returns: the items that got places, and whether other items got no place because too many places are taken.
    func take(_ items: [Item]) -> (taken: [Item], isCrowded: Bool)

    func release(_ item: Item)

    /// Repeats measurements until the task is cancelled, if the assignment of places depends on measurements.
    ///
    /// For example, the places for a slow host depend on how long requests to this host have been unanswered.
    func run() async
}

extension WorkPlaces {
    package func run() async {}
}

/// The places of a worker whose search also claims the items.
///
/// Every item gets a place, because the worker checks for free places before it claims items.
package final class ClaimedPlaces<Item: WorkItem>: WorkPlaces {
    private let limit: Int
    private let counts = Mutex([UUID: Int]())

    package init(_ limit: Int) { self.limit = limit }

    package var count: Int { counts.withLock { $0.values.reduce(0, +) } }
    package var hasRoom: Bool { count < limit }
    /// The number of items that are being processed, by organization.
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
