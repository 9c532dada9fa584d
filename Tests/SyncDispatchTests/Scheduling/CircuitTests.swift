import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// An unavailable upstream receives few requests, and other organizations do not wait for it (product rule 14).
@Suite struct CircuitTests {
    private static func create(_ phone: Phone, payload: String? = nil) -> Entry {
        phone.entry("create", "contact", local: UUID(), payload: payload, extra: ["endpoint": #""/contacts""#])
    }

    @Test func `an unavailable upstream receives no requests, and other organizations do not wait`() async throws {
        let (isUp, dead) = (Shared(false), Shared<UUID?>(nil))
        let upstream = FakeUpstream { request, _ in
            request.organization == dead.value && !isUp.value ? .notSent("connection refused") : nil
        }
        let harness = try await DispatcherHarness(upstream: upstream, maximumConcurrency: 1)
        dead.value = harness.organization.id
        let phones = (0..<20).map { _ in harness.newPhone() }
        let entries = phones.map { Self.create($0) }
        for (phone, entry) in zip(phones, entries) { try await phone.push([entry]) }
        try await harness.until("all lanes are postponed") {
            let due = try await harness.gateway.store.lanes.due(
                at: harness.gateway.clock.now,
                excluding: [],
                limit: 100
            )
            return due.isEmpty && harness.dispatcher.current.running == 0
        }
        #expect(upstream.requests.count == 5)
        #expect(harness.dispatcher.current.openCircuits == 1)
        #expect(try await harness.count("attempt_count = 1") == 5)
        #expect(try await harness.count("attempt_count = 0 AND status = 'pending' AND next_retry_at IS NULL") == 15)
        // another organization continues
        let other = try await harness.newOrganization()
        let neighbour = Phone(harness.gateway, other)
        let entry = Self.create(neighbour)
        try await neighbour.push([entry])
        try await harness.mutation(entry.id, of: neighbour, is: .succeeded)
        #expect(upstream.requests.count == 6)
        isUp.value = true
        try await harness.until("everything was sent") {
            harness.gateway.clock.advance(seconds: 2)
            return try await harness.count("status = 'succeeded'") == 20
        }
        #expect(try await harness.count("attempt_count = 1") == 15)
        #expect(harness.dispatcher.current.openCircuits == 0)
        #expect(upstream.requests.count == 26)
    }

    /// Lanes of an unavailable upstream do not fill the result of one poll.
    @Test func `thousands of lanes of an unavailable upstream do not hide others`() async throws {
        let dead = Shared<UUID?>(nil)
        let upstream = FakeUpstream { request, _ in
            request.organization == dead.value ? .notSent("connection refused") : nil
        }
        let harness = try await DispatcherHarness(upstream: upstream, pollInterval: 3_600)
        dead.value = harness.organization.id
        for _ in 0..<6 {
            let phone = harness.newPhone()
            try await phone.push([Self.create(phone)])
        }
        try await harness.until("the circuit is open") { harness.dispatcher.current.openCircuits == 1 }
        let now = harness.gateway.clock.now.rfc3339
        try await harness.execute(
            """
            INSERT INTO lanes (organization_id, user_id, queued_count, open_count, ready_at, lease_owner)
            SELECT '\(harness.organization.id)', gen_random_uuid(), 1, 1, '\(now)'::timestamptz - interval '1 hour',
                CASE WHEN n % 2 = 0 THEN gen_random_uuid() END
            FROM generate_series(1, 4000) n
            """
        )
        // only a poll of the database finds a lane without a signal
        let other = try await harness.newOrganization()
        let replica = try await Gateway(replicaOf: harness.gateway)
        let neighbour = Phone(replica, other)
        let entry = Self.create(neighbour)
        try await neighbour.push([entry])
        harness.dispatcher.poll()
        try await harness.mutation(entry.id, of: neighbour, is: .succeeded)
        #expect(harness.dispatcher.current.openCircuits == 1)
    }

    /// One lane has a mutation that the upstream never accepts. Twenty others wait, so it does not get all the probes.
    @Test func `a poisoned lane does not keep the circuit open`() async throws {
        let (isUp, poisoned) = (Shared(false), Shared<UUID?>(nil))
        let upstream = FakeUpstream { request, _ in
            if !isUp.value { return .notSent("connection refused") }
            return request.user == poisoned.value ? .status(500) : nil
        }
        let harness = try await DispatcherHarness(upstream: upstream, maximumConcurrency: 1)
        let clock = harness.gateway.clock
        poisoned.value = harness.phone.user
        let poison = Self.create(harness.phone)
        try await harness.phone.push([poison])
        try await harness.until("the first attempt failed") { upstream.requests.count == 1 }
        let phones = (0..<20).map { _ in harness.newPhone() }
        let entries = phones.map { Self.create($0) }
        for (phone, entry) in zip(phones, entries) { try await phone.push([entry]) }
        try await harness.until("the circuit is open") { harness.dispatcher.current.openCircuits == 1 }
        // the poisoned lane probes first and fails, although the upstream is available again
        let others = upstream.requests.count
        clock.advance(seconds: 600)
        isUp.value = true
        try await harness.until("everything else was sent") {
            // the user of the poisoned lane continues to push, so this lane is polled first
            try await harness.phone.push([Self.create(harness.phone)])
            clock.advance(seconds: 1)
            return try await harness.count("status = 'succeeded'") == 20
        }
        let tries = upstream.requests.dropFirst(others).count { $0.user == harness.phone.user }
        #expect(tries <= 2)
        #expect(harness.dispatcher.current.openCircuits == 0)
        // the clock advanced more often than necessary, so the next attempt may have started
        #expect(["pending", "in_flight"].contains(try await harness.mutation(poison.id).status))
    }

    /// A request that the gateway does not send is no evidence about the upstream, and delays no other request.
    @Test func `a request that the gateway refuses fails alone and does not affect the circuit`() async throws {
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { request, _ in
                if request.path == "/odd" { return .refused("the path is odd") }
                let id = "%2e%2e;\(request.idempotencyKey.lowercased)"
                return request.text.contains(#""bad""#) ? .status(201, #"{"id":"\#(id)"}"#) : nil
            }
        )
        var hopeless: [UUID] = []
        for _ in 0..<6 {
            let local = UUID()
            let (create, edit) = (
                harness.create(local: local, payload: #"{"bad":1}"#), harness.change("update", local: local)
            )
            let odd = harness.create(extra: ["endpoint": #""/odd""#])
            try await harness.phone.push([create, edit, odd])
            hopeless += [edit.id, odd.id]
        }
        let rest = harness.create()
        try await harness.phone.push([rest])
        try await harness.mutation(rest.id, is: .succeeded)
        for id in hopeless {
            let failed = try await harness.mutation(id)
            #expect(failed.status == "failed" && failed.code == "validation_failed", "\(failed.text)")
            #expect(failed.attempts == 0 && failed.nextRetryAt == nil, "\(failed.text)")
        }
        #expect(harness.dispatcher.current.openCircuits == 0)
        // no request was sent for the six edits
        #expect(harness.upstream.requests.count == 13)
    }

    @Test func `a lane waits while nothing can be sent, without affecting the circuit`() async throws {
        let isReady = Shared(false)
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, _ in isReady.value ? nil : .unready("no signing key is configured") }
        )
        let local = UUID()
        let create = harness.create(local: local, extra: ["max_attempts": "1"])
        try await harness.phone.push([create])
        for count in 1...12 {
            try await harness.until("polled \(count) times") {
                if harness.upstream.requests.count < count { harness.gateway.clock.advance(seconds: 31) }
                return harness.upstream.requests.count >= count
            }
        }
        let held = try await harness.mutation(create.id, becomes: "held") { $0.status == "pending" }
        #expect(held.attempts == 0 && held.lastError?.contains("signing key") == true)
        #expect(try await harness.mapping(local).status == .pending, "no attempt of the mapping is counted")
        #expect(harness.dispatcher.current.openCircuits == 0)
        isReady.value = true
        try await harness.until("the mutation was sent") {
            harness.gateway.clock.advance(seconds: 31)
            return try await harness.mutation(create.id).status == "succeeded"
        }
    }
}
