import DequeModule
import Foundation

/// The listeners of each organization, in the order of arrival: decides which one is closed when the room is used up.
///
/// A closed listener connects again, here or elsewhere, and misses nothing. So no room has to be kept free: an
/// organization may have all of it until others come.
struct ListenerRegistry {
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

    /// Whether one more listener of an organization may come: there is room, or another organization has more than
    /// this one would have.
    func hasRoom(for organization: UUID, limit: Int) -> Bool {
        guard count >= limit else { return true }
        let own = listeners[organization]?.count ?? 0
        return listeners.values.contains { $0.count > own + 1 }
    }

    /// Returns the listener to close if there are more than `limit`: the oldest of the organization that has the most.
    func evictionCandidate(beyond limit: Int) -> ObjectIdentifier? {
        guard count > limit else { return nil }
        return listeners.values.max { $0.count < $1.count }?.first
    }
}
