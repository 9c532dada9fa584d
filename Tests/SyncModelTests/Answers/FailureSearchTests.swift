import Foundation
import TestSupport
import Testing

@testable import SyncModel

@Suite struct FailureSearchTests {
    private static func record(_ id: UUID, _ status: MutationStatus, needs ids: [UUID] = []) -> MutationRecord {
        MutationRecord.sample(status, id: id, device: id) { $0.state.dependsOn = ids }
    }

    private static func step(
        _ id: UUID,
        _ status: MutationStatus,
        needs ids: [UUID] = [],
        at position: Int64 = 1,
        client: UUID? = nil,
        server: String? = nil
    ) -> FailureSearch.Step {
        let name = EntityName(
            type: "task",
            client: client.map(ClientName.id),
            serverID: server.map { ServerID(text: $0, isInteger: false) }
        )
        return FailureSearch.Step(id: id, status: status, position: position, entity: name, dependsOn: ids)
    }

    @Test(arguments: [MutationStatus.failed, .conflict])
    func `a mutation is stuck if it waits for a stuck one directly or through others`(_ status: MutationStatus) {
        let (failed, first, second, other) = (UUID(), UUID(), UUID(), UUID())
        var search = FailureSearch([
            Self.record(second, .blocked, needs: [other, first]), Self.record(first, .blocked, needs: [failed]),
            Self.record(other, .pending),
        ])
        #expect(search.unknown == [failed])
        #expect(search.stuck.isEmpty)
        search.add([Self.step(failed, status)])
        #expect(search.unknown.isEmpty)
        #expect(search.stuck == [first, second])
        #expect(search.isDecided)
    }

    @Test(arguments: [MutationStatus.pending, .inFlight, .succeeded, .discarded])
    func `a mutation is not stuck if the one for which it waits is not`(_ status: MutationStatus) {
        let (earlier, blocked) = (UUID(), UUID())
        var search = FailureSearch([Self.record(blocked, .blocked, needs: [earlier])])
        search.add([Self.step(earlier, status)])
        #expect(search.stuck.isEmpty && !search.isDecided)
    }

    @Test func `looks up only blocked mutations, and stops at a cycle`() {
        let (failed, a, b) = (UUID(), UUID(), UUID())
        var search = FailureSearch([Self.record(failed, .failed), Self.record(a, .blocked, needs: [b])])
        search.add([Self.step(b, .blocked, needs: [a, b])])
        #expect(search.stuck.isEmpty)
        search.add([Self.step(a, .failed)])
        #expect(search.stuck.isEmpty, "known mutations stay unchanged")
    }

    @Test func `beyond the path limit, a mutation on the path is stuck if an earlier one of its entity is`() {
        let (client, id, far) = (UUID(), UUID(), UUID())
        for (name, position, isStuck) in [
            (client, Int64(3), true), (client, 9, false), (UUID(), 3, false),
        ] {
            var search = FailureSearch([Self.record(id, .blocked, needs: [far])])
            search.add([Self.step(far, .blocked, needs: [UUID()], at: 7, client: client)])
            search.add(troubled: [
                Self.step(UUID(), .pending, at: 1, client: client),
                Self.step(UUID(), .conflict, at: position, client: name),
            ])
            #expect(search.stuck == (isStuck ? [id] : []))
        }
        var search = FailureSearch([Self.record(id, .blocked, needs: [far])])
        search.add([Self.step(far, .blocked, needs: [UUID()], at: 7, client: client, server: "x")])
        search.add(troubled: [Self.step(UUID(), .failed, at: 2, server: "x")])
        #expect(search.stuck == [id])
    }

    /// The graphs are revealed step by step, and the result is compared with the definition.
    @Test func `the search agrees with the rule on random graphs`() {
        let seed = UInt64.random(in: 1 ... .max)
        var generator = SeededRandom(seed)
        let statuses: [MutationStatus] = [.blocked, .blocked, .blocked, .pending, .failed, .conflict, .succeeded]
        for _ in 0..<200 {
            let ids = (0..<20).map { _ in UUID() }
            var all: [UUID: (status: MutationStatus, needs: [UUID])] = [:]
            for (place, id) in ids.enumerated() {
                let status = place == 0 ? .failed : statuses.randomElement(using: &generator) ?? .blocked
                let needs = (0..<Int.random(in: 1...3, using: &generator)).compactMap { _ in
                    ids.prefix(place).randomElement(using: &generator)
                }
                all[id] = (status, status == .blocked ? needs : [])
            }
            var stuck: Set<UUID> = []
            for id in ids {
                guard let (status, needs) = all[id] else { continue }
                let isTrouble = needs.contains {
                    stuck.contains($0) || [.failed, .conflict].contains(all[$0]?.status)
                }
                if status == .blocked, isTrouble { stuck.insert(id) }
            }
            let asked = ids.suffix(5)
            var search = FailureSearch(
                asked.compactMap { id in all[id].map { Self.record(id, $0.status, needs: $0.needs) } }
            )
            while let next = search.unknown.randomElement(using: &generator), let found = all[next] {
                #expect(search.stuck.isSubset(of: stuck), "seed \(seed)")
                search.add([Self.step(next, found.status, needs: found.needs)])
            }
            #expect(search.stuck == stuck.intersection(asked), "seed \(seed)")
        }
    }
}
