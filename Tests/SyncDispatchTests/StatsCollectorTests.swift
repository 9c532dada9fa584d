import Foundation
import StoreSupport
import SyncModel
import Testing

@testable import SyncStore

/// Metrics of waiting lanes, over all organizations and by organization.
@Suite struct StatsCollectorTests {
    @Test func `organizations with the longest wait come first`() async throws {
        let stage = try await DispatcherHarness(isRunning: false)
        let gateway = stage.gateway
        let first = gateway.clock.now
        let second = try await stage.newOrganization()
        let third = try await stage.newOrganization()
        // a fourth organization has no waiting mutation
        _ = try await stage.newOrganization()
        let phones = [stage.phone, Phone(gateway, second), Phone(gateway, third)]
        for phone in phones {
            let entry = phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
            try await phone.push([entry])
            gateway.clock.advance(seconds: 60)
        }
        // a later one of the first organization changes nothing
        let other = Phone(gateway, stage.organization)
        try await other.push([other.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])])

        let census = try await gateway.store.lanes.census(organizations: 10)
        #expect(census.map(\.organization) == [stage.organization.id, second.id, third.id])
        #expect(census.map(\.oldest) == [0, 60, 120].map { first.adding(seconds: $0) })
        #expect(census.allSatisfy { $0.halted == 0 })
        #expect(try await gateway.store.lanes.census(organizations: 2) == Array(census.prefix(2)))
        let all = try await gateway.store.lanes.census(at: gateway.clock.now)
        #expect(all.due == 4 && all.oldest == first)
    }
}
