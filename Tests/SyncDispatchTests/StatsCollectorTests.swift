import Foundation
import StoreSupport
import SyncModel
import Testing

@testable import SyncStore

/// Metrics of waiting lanes, over all organizations and by organization.
@Suite struct StatsCollectorTests {
    @Test func `organizations with the longest wait come first`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let gateway = harness.gateway
        let first = gateway.clock.now
        let second = try await harness.newOrganization()
        let third = try await harness.newOrganization()
        // a fourth organization has no waiting mutation
        _ = try await harness.newOrganization()
        let phones = [harness.phone, Phone(gateway, second), Phone(gateway, third)]
        for phone in phones {
            let entry = phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
            try await phone.push([entry])
            gateway.clock.advance(seconds: 60)
        }
        // a later mutation of the first organization changes nothing
        let other = Phone(gateway, harness.organization)
        try await other.push([other.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])])

        let stats = try await gateway.store.lanes.stats(organizations: 10)
        #expect(stats.map(\.organization) == [harness.organization.id, second.id, third.id])
        #expect(stats.map(\.oldest) == [0, 60, 120].map { first.adding(seconds: $0) })
        #expect(stats.allSatisfy { $0.halted == 0 })
        #expect(try await gateway.store.lanes.stats(organizations: 2) == Array(stats.prefix(2)))
        let all = try await gateway.store.lanes.stats(at: gateway.clock.now)
        #expect(all.due == 4 && all.oldest == first)
    }
}
