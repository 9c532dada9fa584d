import Foundation
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Concurrent look-ups of organizations share one read.
@Suite struct CatalogTests {
    @Test func `each caller receives its own organization, and an unknown id receives nothing`() async throws {
        let gateway = try await Gateway()
        var known: Set<UUID> = []
        for _ in 0..<20 { known.insert(try await gateway.organization().id) }
        let strangers = (0..<300).map { _ in UUID() }
        let found = try await withThrowingTaskGroup(of: (UUID, UUID?, Placement).self) { group in
            for id in Array(known) + strangers {
                group.addTask {
                    let entry = try await gateway.store.catalog.entry(id)
                    return (id, entry.organization?.id, entry.place)
                }
            }
            return try await group.reduce(into: [:]) { $0[$1.0] = ($1.1, $1.2) }
        }
        for id in known { #expect(found[id]?.0 == id) }
        for id in strangers { #expect(found[id].map { $0.0 == nil } == true) }
    }

    @Test func `a change is visible after five seconds, and the partition stays the same`() async throws {
        let gateway = try await Gateway()
        let id = try await gateway.organization().id
        let first = try await gateway.store.catalog.entry(id)
        let connection = try await gateway.database.connect()
        try await connection.execute(script: "UPDATE organizations SET status = 'suspended'")
        connection.close()
        #expect(try await gateway.store.catalog.organization(id)?.status == .active)
        gateway.clock.advance(seconds: 5)
        let second = try await gateway.store.catalog.entry(id)
        #expect(second.organization?.status == .suspended)
        #expect(second.place == first.place)
    }

    @Test func `concurrent callers share one read of an organization with many types`() async throws {
        let gateway = try await Gateway()
        let id = try await gateway.organization().id
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: """
                INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded)
                SELECT id, 'type_' || n, 'mapped', 'organization', 0, false FROM organizations, generate_series(1, 300) n
                """
        )
        connection.close()
        gateway.clock.advance(seconds: 5)
        #expect(try await gateway.store.catalog.entry(id).types.count >= 300)
        let connections = gateway.store.pool.statistics.created
        gateway.clock.advance(seconds: 5)
        let counts = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<200 {
                group.addTask { try await gateway.store.catalog.entry(id).types.count }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(counts.count == 1)
        // separate reads would have opened all connections of the pool
        #expect(gateway.store.pool.statistics.created <= connections + 1)
    }
}
