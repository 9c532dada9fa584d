package import FoundationEssentials
import SyncModel
import Synchronization

/// Signals for operators' views, sent immediately.
///
/// The signals report that an organization's data changed, or that an operation made progress. Signals are free while
/// no view is open. With open views, signals need memory only for organizations that changed after the last read.
package final class OperatorChanges: Sendable {
    /// The maximum number of stored organizations. If more organizations change, the others are not named
    /// (``News/hasOthers``).
    static let capacity = 1_000

    /// The changes since the last read.
    package struct News: Sendable {
        /// The organizations that were changed.
        package fileprivate(set) var organizations: Set<UUID> = []
        /// Whether other organizations were changed, which are not listed.
        package fileprivate(set) var hasOthers = false
        /// The operations that made progress, by id, with their organizations.
        package fileprivate(set) var operations: [UUID: UUID] = [:]

        package var isEmpty: Bool { organizations.isEmpty && !hasOthers && operations.isEmpty }

        fileprivate mutating func add(_ organization: UUID) {
            if organizations.count < OperatorChanges.capacity {
                organizations.insert(organization)
            } else {
                hasOthers = true
            }
        }
    }

    private let isCollecting = Atomic(false)
    private let changes = Mutex(News())

    init() {}

    /// Starts or stops collecting changes.
    package func setCollecting(_ isOn: Bool) {
        isCollecting.store(isOn, ordering: .relaxed)
        if !isOn { _ = take() }
    }

    /// Returns and clears the changes.
    package func take() -> News {
        changes.withLock { changes in
            defer { changes = News() }
            return changes
        }
    }

    /// Signals that an operation of an organization has made progress.
    package func operationMoved(_ operation: UUID, of organization: UUID) {
        guard isCollecting.load(ordering: .relaxed) else { return }
        changes.withLock { changes in
            guard changes.operations.count < Self.capacity else { return }
            changes.operations[operation] = organization
        }
    }

    func changed(_ lanes: [LaneKey]) {
        guard isCollecting.load(ordering: .relaxed) else { return }
        changes.withLock { changes in
            for lane in lanes { changes.add(lane.organization) }
        }
    }

    /// Signals that an operator changed data of an organization.
    func changed(_ organization: UUID) {
        guard isCollecting.load(ordering: .relaxed) else { return }
        changes.withLock { $0.add(organization) }
    }

    /// Signals a change by another replica.
    ///
    /// Other replicas send short names of the changed lanes and feeds, which cannot be resolved to organizations.
    func changedElsewhere() {
        guard isCollecting.load(ordering: .relaxed) else { return }
        changes.withLock { $0.hasOthers = true }
    }
}
