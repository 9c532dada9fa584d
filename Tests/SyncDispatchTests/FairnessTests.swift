import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// Organizations take turns, and none runs more lanes than its upstream is to bear.
@Suite struct FairnessTests {
    @Test func `a quiet organization does not wait for a noisy one`() async throws {
        let (gate, traffic) = (Gate(), Traffic<UUID>())
        let quiet = Shared<UUID?>(nil)
        let count = Shared(0)
        let upstream = FakeUpstream { request, _ in
            if request.organization == quiet.value { return nil }
            traffic.enter(request.organization)
            await gate.pass()
            for _ in 0..<10 { await Task.yield() }
            count.change { $0 += 1 }
            traffic.leave(request.organization)
            return nil
        }
        let stage = try await Stage(upstream: upstream, maximumConcurrency: 4)
        let phones = (0..<300).map { _ in stage.newPhone() }
        func create(_ phone: Phone) -> Entry {
            phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
        }
        for phone in phones { try await phone.push((0..<5).map { _ in create(phone) }) }
        await gate.arrivals(4)
        #expect(stage.dispatcher.current.running == 4)
        let other = Phone(stage.gateway, try await stage.newOrganization())
        quiet.value = other.organization.id
        let entry = create(other)
        try await other.push([entry])
        // the noisy one has as many requests under way as it may, and gets no answer to any of them
        try await stage.mutation(entry.id, of: other, is: .succeeded)
        #expect(count.value == 0)
        gate.open()
        try await stage.until("the noisy one is done") { count.value == 1_500 }
        #expect(traffic.most[stage.organization.id] == 4)
        #expect(upstream.effects.count == 1_501)
    }
}
