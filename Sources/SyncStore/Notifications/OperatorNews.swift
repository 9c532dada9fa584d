package import Foundation
import SyncModel
import Synchronization

/// What operators who look on are told at once: that something of an organization was changed, that an operation goes on.
/// It costs nothing while nobody looks on, and holds no more than the organizations of a moment.
package final class OperatorNews: Sendable {
    /// Organizations that are remembered; of more is told that something was changed somewhere.
    static let capacity = 1_000

    /// What has happened since it was taken last.
    package struct News: Sendable {
        /// Of whom something was changed.
        package fileprivate(set) var organizations: Set<UUID> = []
        /// Whether more was changed: of whom is not known.
        package fileprivate(set) var hasOthers = false
        /// Operations that went on: which, and whose.
        package fileprivate(set) var operations: [UUID: UUID] = [:]

        package var isEmpty: Bool { organizations.isEmpty && !hasOthers && operations.isEmpty }

        fileprivate mutating func add(_ organization: UUID) {
            if organizations.count < OperatorNews.capacity {
                organizations.insert(organization)
            } else {
                hasOthers = true
            }
        }
    }

    private let isWanted = Atomic(false)
    private let news = Mutex(News())

    init() {}

    /// Begins to gather news, or ends to.
    package func want(_ wanted: Bool) {
        isWanted.store(wanted, ordering: .relaxed)
        if !wanted { _ = take() }
    }

    /// What there is, once.
    package func take() -> News {
        news.withLock { news in
            defer { news = News() }
            return news
        }
    }

    /// Tells that an operation of an organization has gone on.
    package func operationMoved(_ operation: UUID, of organization: UUID) {
        guard isWanted.load(ordering: .relaxed) else { return }
        news.withLock { news in
            guard news.operations.count < Self.capacity else { return }
            news.operations[operation] = organization
        }
    }

    func changed(_ lanes: [LaneKey]) {
        guard isWanted.load(ordering: .relaxed) else { return }
        news.withLock { news in
            for lane in lanes { news.add(lane.organization) }
        }
    }

    /// Tells that something of an organization was changed by an operator.
    func changed(_ organization: UUID) {
        guard isWanted.load(ordering: .relaxed) else { return }
        news.withLock { $0.add(organization) }
    }

    /// Other replicas tell names of what they changed, which lead back to nobody.
    func changedElsewhere() {
        guard isWanted.load(ordering: .relaxed) else { return }
        news.withLock { $0.hasOthers = true }
    }
}
