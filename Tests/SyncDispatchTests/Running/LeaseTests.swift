import Foundation
import JSONText
import Logging
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// At most one worker runs a lane at a time, and a late one changes nothing (product rule 13).
@Suite struct LeaseTests {
    @Test func `two replicas never run a lane at the same time`() async throws {
        let traffic = Traffic<UUID>()
        let upstream = FakeUpstream { request, _ in
            traffic.enter(request.user)
            for _ in 0..<20 { await Task.yield() }
            traffic.leave(request.user)
            return nil
        }
        let harness = try await DispatcherHarness(upstream: upstream)
        let other = try await Gateway(replicaOf: harness.gateway)
        let helper = Helper(other, upstream)
        let phones = (0..<8).map { _ in harness.newPhone() }
        var last: [(Phone, UUID)] = []
        for round in 0..<6 {
            for (index, phone) in phones.enumerated() {
                let entries = (0..<5).map { number in
                    phone.entry(
                        "create",
                        "contact",
                        local: UUID(),
                        payload: #"{"n":\#(round * 5 + number)}"#,
                        extra: ["endpoint": #""/contacts""#]
                    )
                }
                try await phone.push(entries, through: (round + index) % 2 == 0 ? other : nil)
                if round == 5 { last.append((phone, entries[4].id)) }
            }
        }
        for (phone, id) in last { try await harness.mutation(id, of: phone, is: .succeeded) }
        #expect(upstream.effects.count == 240 && upstream.requests.count == 240)
        #expect(traffic.most.values.allSatisfy { $0 == 1 } && traffic.most.count == 8)
        for phone in phones {
            let sent = upstream.requests.filter { $0.user == phone.user }.map(\.text)
            #expect(sent == (0..<30).map { #"{"n":\#($0)}"# })
        }
        await helper.shutDown()
        await harness.shutDown()
    }

    @Test func `a worker that stalls beyond its lease loses its outcome`() async throws {
        let gate = Gate()
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, seen in
                guard seen == 0 else { return nil }
                await gate.pass()
                return .status(422)
            }
        )
        let create = harness.create()
        try await harness.phone.push([create])
        await gate.arrivals(1)
        let token = try await harness.lane().lease.token
        let other = try await Gateway(replicaOf: harness.gateway)
        for clock in [harness.gateway.clock, other.clock] { clock.advance(seconds: 121) }
        let helper = Helper(other, harness.upstream)
        let done = try await harness.mutation(create.id, is: .succeeded)
        #expect(done.attempts == 2)
        gate.open()
        await harness.shutDown()
        let after = try await harness.mutation(create.id)
        #expect(after.text == done.text)
        #expect(try await harness.lane().lease.token == token + 1)
        let keys = harness.upstream.requests.map(\.idempotencyKey)
        #expect(keys.count == 2 && keys[0] == keys[1] && harness.upstream.effects.count == 1)
        await helper.shutDown()
    }

    /// The process was suspended between the commit and the request, so it checks the lease again.
    @Test func `a request that does not fit into the lease is not sent`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        try await harness.phone.push([harness.create()])
        let worker = UUID()
        let dispatch = try #require(await harness.step(.claim, by: worker).dispatch)
        let now = harness.gateway.clock.now
        #expect(dispatch.leasedUntil == now.adding(seconds: 120))
        #expect(dispatch.canBeSent(at: now) && dispatch.canBeSent(at: now.adding(seconds: 89)))
        #expect(!dispatch.canBeSent(at: now.adding(seconds: 90)))
        // the mutation is returned unchanged, the lease is renewed, and the mutation's turn comes again
        harness.gateway.clock.advance(seconds: 90)
        let again = try #require(
            await harness.step(.settle(dispatch, Outcome(ofUnsent: dispatch)), by: worker).dispatch
        )
        #expect(again.mutation.id == dispatch.mutation.id && again.mutation.attemptCount == 0)
        #expect(again.token == dispatch.token && again.canBeSent(at: harness.gateway.clock.now))
        // if another worker has claimed the lane, the step is lost
        harness.gateway.clock.advance(seconds: 121)
        _ = try await harness.step(.claim, by: UUID())
        #expect(try await harness.step(.settle(again, Outcome(ofUnsent: again)), by: worker).isLost)
        #expect(harness.upstream.requests.isEmpty)
    }

    @Test func `a suspended worker checks its lease before it sends`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let create = harness.create()
        try await harness.phone.push([create])
        let clock = harness.gateway.clock
        let stalls = Shared(1)
        let runner = LaneRunner(
            store: harness.gateway.store.lanes,
            inFlight: InFlightRequests(harness.upstream),
            circuits: Circuits(now: { clock.now }),
            clock: HostClock { _ in },
            configuration: DispatchConfiguration {
                // the first time, the mutation is in flight and is about to be sent
                if stalls.change({ stalls in
                    stalls -= 1
                    return stalls == 0
                }) {
                    clock.advance(seconds: 100)
                }
                return clock.now
            },
            worker: UUID(),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            surroundings: LaneRunner.Surroundings(
                isDraining: { false },
                isCrowded: { _ in false },
                recordUpstream: { _, _, _ in },
                noteCap: { _, _ in },
                shares: LaneShares(),
                wakes: LaneWakes(),
                refusedBatches: RefusedBatches(),
                retry: { _, _ in }
            )
        )
        #expect(await !runner.run(harness.key))
        #expect(harness.upstream.requests.count == 1)
        let done = try await harness.mutation(create.id)
        #expect(done.status == "succeeded" && done.attempts == 1)
        #expect(try await harness.lane().lease.token == 1)
    }

    @Test func `a lost worker's request in flight is sent again under the same key`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let create = harness.create()
        try await harness.phone.push([create])
        let (lost, next) = (UUID(), UUID())
        let first = try #require(await harness.step(.claim, by: lost).dispatch)
        #expect(try await harness.mutation(create.id).status == "in_flight")
        #expect(try await harness.step(.claim, by: next).isLost)
        harness.gateway.clock.advance(seconds: 119)
        #expect(try await harness.step(.claim, by: next).isLost)
        harness.gateway.clock.advance(seconds: 1)
        let second = try #require(await harness.step(.claim, by: next).dispatch)
        #expect(second.token == first.token + 1)
        #expect(second.mutation.isOutcomeUnknown && second.attempts == 2)
        #expect(second.request?.idempotencyKey == first.request?.idempotencyKey)
        // a 409 now may be the echo of the first
        #expect(try await harness.settle(first, .status(422), by: lost).isLost)
        #expect(try await harness.settle(second, .status(409), by: lost).isLost)
        #expect(try await harness.settle(second, .status(409), by: next).isReleased)
        let held = try await harness.mutation(create.id)
        #expect(held.status == "pending" && held.attempts == 2 && held.nextRetryAt != nil)
    }

    /// The clock does not advance, so no lease expires. After a lost step, the worker that holds the lane continues.
    @Test func `lanes continue after outages before their leases expire`() async throws {
        let gateway = try await Gateway()
        let database = gateway.database
        let upstream = FakeUpstream { request, _ in
            // the steps of all other lanes are running, and this request's outcome is written next
            guard request.text.contains("outage") else { return nil }
            let connection = try? await database.connect()
            let others = "datname = current_database() AND pid <> pg_backend_pid()"
            try? await connection?.execute(
                script: "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \(others)"
            )
            connection?.close()
            return nil
        }
        let harness = try await DispatcherHarness(gateway: gateway, upstream: upstream)
        try await harness.makeBuiltIn("note")
        let phones = (0..<6).map { _ in harness.newPhone() }
        var sent = 0
        for phone in phones {
            var entries: [Entry] = []
            for number in 0..<40 {
                // built-in mutations wait for earlier forwarded ones, and are applied in the lane
                let isSent = number % 8 == 0
                sent += isSent ? 1 : 0
                entries.append(
                    phone.entry(
                        "create",
                        isSent ? "contact" : "note",
                        local: UUID(),
                        payload: isSent && sent % 5 == 0 ? #"{"n":"outage"}"# : #"{"n":1}"#,
                        extra: isSent ? ["endpoint": #""/contacts""#] : [:]
                    )
                )
            }
            // a push may meet an outage as well; the device's worker has to repeat it
            try await waitUntil("the push is accepted") { (try? await phone.push(entries)) != nil }
        }
        try await harness.until("all have run") { (try? await harness.count("status = 'succeeded'")) == 6 * 40 }
        #expect(upstream.effects.count == 6 * 5)
    }

    /// A process never runs a lane twice at the same time. If a worker finds a lane under its own lease, it did not
    /// receive the answer to its claim, or lost track of the lane. It does not wait for the lease to expire. The
    /// request in flight may have been sent.
    @Test func `a worker claims a lane under its own lease`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let create = harness.create()
        try await harness.phone.push([create])
        let (own, other) = (UUID(), UUID())
        let first = try #require(await harness.step(.claim, by: own).dispatch)
        #expect(try await harness.step(.claim, by: other).isLost)
        let second = try #require(await harness.step(.claim, by: own).dispatch)
        #expect(second.token == first.token + 1)
        #expect(second.mutation.isOutcomeUnknown && second.attempts == 2)
        #expect(second.request?.idempotencyKey == first.request?.idempotencyKey)
        #expect(try await harness.settle(first, .status(200), by: own).isLost)
        #expect(try await harness.settle(second, .status(201, #"{"id":8}"#), by: own).isReleased)
        #expect(try await harness.mutation(create.id).status == "succeeded")
    }

    @Test func `a lost worker's last attempt fails the mutation`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let contact = UUID()
        let create = harness.create(local: contact, extra: ["max_attempts": "1"])
        let rest = harness.create()
        try await harness.phone.push([create, rest])
        _ = try #require(await harness.step(.claim, by: UUID()).dispatch)
        harness.gateway.clock.advance(seconds: 120)
        let next = try #require(await harness.step(.claim, by: UUID()).dispatch)
        #expect(next.mutation.id == rest.id)
        let failed = try await harness.mutation(create.id)
        #expect(failed.status == "failed" && failed.code == "max_attempts_reached" && failed.attempts == 1)
        #expect(try await harness.mapping(contact).status == .failed)
        #expect(try await harness.lane().queue.count == 1)
    }

    @Test func `a long lane renews its lease under one token`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        try await harness.phone.push((0..<6).map { _ in harness.create() })
        let worker = UUID()
        var dispatch = try #require(await harness.step(.claim, by: worker).dispatch)
        let token = dispatch.token
        for number in 1...5 {
            harness.gateway.clock.advance(seconds: 50)
            dispatch = try #require(
                await harness.settle(dispatch, .status(201, #"{"id":\#(number)}"#), by: worker).dispatch
            )
            let lane = try await harness.lane()
            #expect(lane.lease.token == token && lane.lease.owner == worker)
            // time for a whole request
            #expect(try #require(lane.readyAt) >= harness.gateway.clock.now.adding(seconds: 60))
            #expect(try await harness.step(.claim, by: UUID()).isLost)
        }
    }

    /// The answer to a step was lost, and its worker repeats it.
    @Test func `a repeated step takes effect once`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let (first, second) = (UUID(), UUID())
        let entries = [harness.create(local: first), harness.create(local: second)]
        try await harness.phone.push(entries)
        let worker = UUID()
        let one = try #require(await harness.step(.claim, by: worker).dispatch)
        let two = try #require(await harness.settle(one, .status(201, #"{"id":1}"#), by: worker).dispatch)
        let before = try await harness.mutation(entries[0].id)
        let again = try #require(await harness.settle(one, .status(201, #"{"id":99}"#), by: worker).dispatch)
        #expect(again.mutation.id == two.mutation.id && again.attempts == 1 && !again.mutation.isOutcomeUnknown)
        #expect(again.request == two.request)
        #expect(try await harness.mutation(entries[0].id).text == before.text)
        #expect(try await harness.mapping(first).serverID?.text == "1")
        #expect(try await harness.settle(again, .status(201, #"{"id":2}"#), by: worker).isReleased)
        #expect(try await harness.mutation(entries[1].id).attempts == 1)
        // the last step released the lane, so a late worker has nothing to do
        #expect(try await harness.settle(again, .status(201, #"{"id":3}"#), by: worker).isLost)
        let lane = try await harness.lane()
        #expect(lane.queue.count == 0 && lane.openCount == 0 && lane.inFlight == nil && lane.lease.owner == nil)
    }
}
