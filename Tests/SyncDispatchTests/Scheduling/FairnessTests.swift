import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// Organizations take turns, and each runs at most as many lanes as its upstream supports.
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
        let harness = try await DispatcherHarness(upstream: upstream, maximumConcurrency: 4)
        let phones = (0..<300).map { _ in harness.newPhone() }
        func create(_ phone: Phone) -> Entry {
            phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
        }
        for phone in phones { try await phone.push((0..<5).map { _ in create(phone) }) }
        await gate.arrivals(4)
        #expect(harness.dispatcher.current.running == 4)
        let other = Phone(harness.gateway, try await harness.newOrganization())
        quiet.value = other.organization.id
        let entry = create(other)
        try await other.push([entry])
        // the noisy organization has its maximum of requests in flight, which are not answered
        try await harness.mutation(entry.id, of: other, is: .succeeded)
        #expect(count.value == 0)
        gate.open()
        try await harness.until("the noisy one is done") { count.value == 1_500 }
        #expect(traffic.most[harness.organization.id] == 4)
        #expect(upstream.effects.count == 1_501)
    }

    // MARK: - Upstreams that hang

    /// An upstream that answers only the organizations in `answered`, and the others once the gate opens.
    private static func hanging(_ gate: Gate, _ answered: Shared<Set<UUID>>) -> FakeUpstream {
        FakeUpstream { request, _ in
            if !answered.value.contains(request.organization) { await gate.pass() }
            return nil
        }
    }

    private static func create(_ phone: Phone, _ endpoint: String = "/contacts") -> Entry {
        phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""\#(endpoint)""#])
    }

    @Test func `an organization whose upstream hangs leaves capacity for another`() async throws {
        let (gate, answered) = (Gate(), Shared<Set<UUID>>([]))
        let upstream = Self.hanging(gate, answered)
        let harness = try await DispatcherHarness(upstream: upstream, maximumConcurrency: 1_000) { $0.maximumLanes = 4 }
        for _ in 0..<100 {
            let phone = harness.newPhone()
            try await phone.push([Self.create(phone)])
        }
        await gate.arrivals(100)
        #expect(harness.dispatcher.current.running == 100, "a request that awaits an answer occupies no place")
        let other = Phone(harness.gateway, try await harness.newOrganization())
        answered.change { _ = $0.insert(other.organization.id) }
        let entry = Self.create(other)
        try await other.push([entry])
        try await harness.mutation(entry.id, of: other, is: .succeeded)
        try await harness.until("no lane occupies a place") { harness.dispatcher.current.working == 0 }
        #expect(harness.dispatcher.current.awaiting == 100 && harness.dispatcher.current.heldBySlow == 100)
        gate.open()
        try await harness.until("all requests are done") { upstream.effects.count == 101 }
        try await harness.until("all lanes are released") { harness.dispatcher.current.running == 0 }
        #expect(harness.dispatcher.current.awaiting == 0)
    }

    @Test func `a hoster's outage leaves capacity for organizations elsewhere`() async throws {
        let (gate, answered) = (Gate(), Shared<Set<UUID>>([]))
        let upstream = Self.hanging(gate, answered)
        let harness = try await DispatcherHarness(upstream: upstream, maximumConcurrency: 16) {
            ($0.maximumLanes, $0.maximumRequests) = (4, 128)
        }
        // one organization has received quick answers before, the other is new
        let known = Phone(harness.gateway, try await harness.newOrganization())
        let new = Phone(harness.gateway, try await harness.newOrganization())
        answered.value = [known.organization.id, new.organization.id]
        let first = Self.create(known)
        try await known.push([first])
        try await harness.mutation(first.id, of: known, is: .succeeded)
        for _ in 0..<30 {
            let organization = try await harness.newOrganization(maximumConcurrency: 16)
            for _ in 0..<4 {
                let phone = Phone(harness.gateway, organization)
                try await phone.push([Self.create(phone)])
            }
        }
        await gate.arrivals(30)
        for phone in [known, new] {
            let entry = Self.create(phone)
            try await phone.push([entry])
            try await harness.mutation(entry.id, of: phone, is: .succeeded)
        }
        #expect(harness.dispatcher.current.heldBySlow <= 112, "three quarters of the requests, and some first requests")
        gate.open()
        try await harness.until("all requests are done") { upstream.effects.count == 123 }
    }

    @Test func `a hanging route does not delay other routes and organizations`() async throws {
        let gate = Gate()
        let upstream = FakeUpstream { request, _ in
            if request.path.hasPrefix("/slow") { await gate.pass() }
            return nil
        }
        let harness = try await DispatcherHarness(upstream: upstream, maximumConcurrency: 64) { $0.maximumLanes = 4 }
        for _ in 0..<20 {
            let phone = harness.newPhone()
            try await phone.push([Self.create(phone, "/slow")])
        }
        await gate.arrivals(20)
        let other = Phone(harness.gateway, try await harness.newOrganization())
        for phone in [harness.newPhone(), other] {
            let entry = Self.create(phone)
            try await phone.push([entry])
            try await harness.mutation(entry.id, of: phone, is: .succeeded)
        }
        gate.open()
        try await harness.until("all requests are done") { upstream.effects.count == 22 }
    }

    @Test func `time-outs of a hanging upstream open its circuit and free its requests`() async throws {
        let (gate, answered) = (Gate(), Shared<Set<UUID>>([]))
        let upstream = FakeUpstream { request, _ in
            if answered.value.contains(request.organization) { return nil }
            await gate.pass()
            return .unknown("timed out")
        }
        let harness = try await DispatcherHarness(upstream: upstream, maximumConcurrency: 100) { $0.maximumLanes = 4 }
        let phones = (0..<30).map { _ in harness.newPhone() }
        for phone in phones { try await phone.push([Self.create(phone)]) }
        await gate.arrivals(30)
        gate.open()
        try await harness.until("the circuit is open and nothing runs") {
            harness.dispatcher.current.openCircuits == 1 && harness.dispatcher.current.running == 0
        }
        #expect(harness.dispatcher.current.awaiting == 0 && harness.dispatcher.current.heldBySlow == 0)
        answered.value = [harness.organization.id]
        try await harness.until("all mutations have succeeded") {
            harness.gateway.clock.advance(seconds: 2)
            return try await harness.count("status = 'succeeded'") == 30
        }
        #expect(harness.dispatcher.current.openCircuits == 0)
    }

    @Test func `lanes of the built-in store never wait for upstreams`() async throws {
        let (gate, answered) = (Gate(), Shared<Set<UUID>>([]))
        let upstream = Self.hanging(gate, answered)
        let harness = try await DispatcherHarness(upstream: upstream, maximumConcurrency: 1_000) {
            ($0.maximumLanes, $0.maximumRequests) = (1, 40)
        }
        for _ in 0..<60 {
            let phone = harness.newPhone()
            try await phone.push([Self.create(phone)])
        }
        await gate.arrivals(20)
        let other = Phone(harness.gateway, try await harness.newOrganization())
        answered.value = [other.organization.id]
        try await harness.execute(
            """
            INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded)
            VALUES ('\(other.organization.id)', 'note', 'mapped', 'organization', 0, false)
            """
        )
        harness.gateway.store.catalog.invalidate(other.organization.id)
        // the second waits for the first, so a lane applies it
        let first = Self.create(other)
        let second = other.entry("create", "note", local: UUID(), extra: ["dependency_ids": #"["\#(first.id)"]"#])
        try await other.push([first, second])
        try await harness.mutation(second.id, of: other, is: .succeeded)
        try await harness.until("the organization holds as much as it leaves free") {
            harness.dispatcher.current.awaiting == 20
        }
        gate.open()
        try await harness.until("all requests are done") { upstream.effects.count == 61 }
    }

    @Test func `organizations with many due lanes do not hide others from a search`() async throws {
        let answered = Shared<Set<UUID>>([])
        let gate = Gate()
        let upstream = Self.hanging(gate, answered)
        let harness = try await DispatcherHarness(upstream: upstream, isRunning: false)
        for _ in 0..<3 {
            let contention = try await harness.newOrganization()
            let phone = Phone(harness.gateway, contention)
            try await phone.push([Self.create(phone)])
            // lanes whose workers were lost, due for longer than any other
            try await harness.execute(
                """
                INSERT INTO lanes (organization_id, user_id, ready_at, next_position, lease_token)
                SELECT '\(contention.id)', gen_random_uuid(), now() - interval '9 years', 1, 0 FROM generate_series(1, 1200)
                """
            )
        }
        let other = Phone(harness.gateway, try await harness.newOrganization())
        answered.value = [other.organization.id]
        let entry = Self.create(other)
        try await other.push([entry])
        // the dispatcher polls once, and continues while there are more due lanes
        let late = Helper(harness.gateway, upstream, pollInterval: 3_600)
        try await harness.mutation(entry.id, of: other, is: .succeeded)
        gate.open()
        await late.shutDown()
    }
}
