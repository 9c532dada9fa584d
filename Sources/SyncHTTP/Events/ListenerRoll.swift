import DequeModule
import Foundation

/// Who listens for which organization, in the order in which they came: says who makes room where there is none left.
///
/// A listener that is ended connects again, here or elsewhere, and misses nothing. So listeners need no room that is kept
/// free: an organization may have all of them until others come.
struct ListenerRoll {
    private var listeners: [UUID: Deque<ObjectIdentifier>] = [:]
    private(set) var count = 0

    mutating func add(_ listener: ObjectIdentifier, of organization: UUID) {
        listeners[organization, default: []].append(listener)
        count += 1
    }

    mutating func remove(_ listener: ObjectIdentifier, of organization: UUID) {
        guard let place = listeners[organization]?.firstIndex(of: listener) else { return }
        listeners[organization]?.remove(at: place)
        if listeners[organization]?.isEmpty ?? true { listeners[organization] = nil }
        count -= 1
    }

    /// Whether one more of an organization may come: there is room, or another organization has more than it would have.
    func hasRoom(for organization: UUID, limit: Int) -> Bool {
        guard count >= limit else { return true }
        let own = listeners[organization]?.count ?? 0
        return listeners.values.contains { $0.count > own + 1 }
    }

    /// Who has to go where there are more than `limit`: the oldest listener of the organization that has the most.
    func crowding(beyond limit: Int) -> ObjectIdentifier? {
        guard count > limit else { return nil }
        return listeners.values.max { $0.count < $1.count }?.first
    }
}
