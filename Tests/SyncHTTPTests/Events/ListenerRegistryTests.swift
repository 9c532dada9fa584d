import Foundation
import Testing

@testable import SyncHTTP

@Suite("Who may listen")
struct ListenerRegistryTests {
    private final class Listener {}

    @Test
    func `one organization may have all listeners until another organization arrives`() {
        let (first, second) = (UUID(), UUID())
        let listeners = (0..<10).map { _ in Listener() }
        var registry = ListenerRegistry()
        for listener in listeners {
            #expect(registry.hasRoom(for: first, limit: 10))
            registry.add(ObjectIdentifier(listener), of: first)
            #expect(registry.evictionCandidate(beyond: 10) == nil)
        }
        #expect(!registry.hasRoom(for: first, limit: 10))
        var guests: [Listener] = []
        for place in 0..<5 {
            #expect(registry.hasRoom(for: second, limit: 10))
            guests.append(Listener())
            registry.add(ObjectIdentifier(guests[place]), of: second)
            let oldest = registry.evictionCandidate(beyond: 10)
            #expect(oldest == ObjectIdentifier(listeners[place]), "the oldest listener of the largest organization")
            if let oldest { registry.remove(oldest, of: first) }
        }
        #expect(!registry.hasRoom(for: second, limit: 10), "both have a half")
        #expect(!registry.hasRoom(for: first, limit: 10))
        #expect(registry.hasRoom(for: UUID(), limit: 10))
        #expect(registry.count == 10)
    }
}
