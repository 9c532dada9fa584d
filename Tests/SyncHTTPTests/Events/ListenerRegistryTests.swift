import Foundation
import Testing

@testable import SyncHTTP

@Suite("Who may listen")
struct ListenerRegistryTests {
    private final class Listener {}

    @Test
    func `one organization may use all the room until another arrives`() {
        let (first, second) = (UUID(), UUID())
        let listeners = (0..<10).map { _ in Listener() }
        var roll = ListenerRegistry()
        for listener in listeners {
            #expect(roll.hasRoom(for: first, limit: 10))
            roll.add(ObjectIdentifier(listener), of: first)
            #expect(roll.crowding(beyond: 10) == nil)
        }
        #expect(!roll.hasRoom(for: first, limit: 10))
        var guests: [Listener] = []
        for place in 0..<5 {
            #expect(roll.hasRoom(for: second, limit: 10))
            guests.append(Listener())
            roll.add(ObjectIdentifier(guests[place]), of: second)
            let oldest = roll.crowding(beyond: 10)
            #expect(oldest == ObjectIdentifier(listeners[place]), "the oldest of the largest organization")
            if let oldest { roll.remove(oldest, of: first) }
        }
        #expect(!roll.hasRoom(for: second, limit: 10), "both have a half")
        #expect(!roll.hasRoom(for: first, limit: 10))
        #expect(roll.hasRoom(for: UUID(), limit: 10))
        #expect(roll.count == 10)
    }
}
