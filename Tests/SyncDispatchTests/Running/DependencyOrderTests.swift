import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// Lanes with several mutations in flight (product rule 19).
@Suite struct DependencyOrderTests {
    private static let settings = #"{"order":"dependencies","max_in_flight_per_user":4}"#

    @Test func `independent mutations of a user are in flight at the same time, up to the setting`() async throws {
        let (gate, traffic) = (Gate(), Traffic<UUID>())
        let upstream = FakeUpstream { request, _ in
            traffic.enter(request.user)
            await gate.pass()
            for _ in 0..<10 { await Task.yield() }
            traffic.leave(request.user)
            return nil
        }
        let harness = try await DispatcherHarness(settings: Self.settings, upstream: upstream)
        let entries = (0..<20).map { _ in harness.create() }
        try await harness.phone.push(entries)
        await gate.arrivals(4)
        #expect(try await harness.count("status = 'in_flight'") == 4)
        #expect(upstream.requests.count == 4, "nothing is sent before it is committed as in flight")
        gate.open()
        for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
        #expect(traffic.most[harness.phone.user] == 4 && upstream.effects.count == 20)
        let lane = try await harness.restingLane()
        #expect(lane.queue.count == 0 && lane.openCount == 0 && lane.isAtRest && lane.readyAt == nil)
    }

    @Test func `the default order has one request of a user in flight`() async throws {
        let traffic = Traffic<UUID>()
        let upstream = FakeUpstream { request, _ in
            traffic.enter(request.user)
            for _ in 0..<10 { await Task.yield() }
            traffic.leave(request.user)
            return nil
        }
        let harness = try await DispatcherHarness(upstream: upstream)
        let entries = (0..<10).map { _ in harness.create() }
        try await harness.phone.push(entries)
        for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
        #expect(traffic.most[harness.phone.user] == 1)
    }

    @Test func `a mutation waits for its dependencies, and others overtake it`() async throws {
        let gate = Gate()
        let upstream = FakeUpstream { request, _ in
            if request.path == "/contacts" { await gate.pass() }
            return nil
        }
        let harness = try await DispatcherHarness(settings: Self.settings, upstream: upstream)
        let contact = UUID()
        let create = harness.create(local: contact)
        let update = harness.change("update", local: contact, payload: #"{"name":"Ola"}"#)
        let note = harness.create("note", payload: #"{"of":"\#(contact.lowercased)"}"#)
        let other = harness.create("task")
        try await harness.phone.push([create, update, note, other])
        await gate.arrivals(1)
        try await harness.mutation(other.id, is: .succeeded)
        #expect(try await harness.mutation(update.id).status == "blocked")
        #expect(try await harness.mutation(note.id).status == "blocked")
        gate.open()
        for entry in [create, update, note] { try await harness.mutation(entry.id, is: .succeeded) }
        let lines = upstream.effects.map(\.line)
        let id = try #require(try await harness.mutation(create.id)["server_id"]?.int64)
        #expect(lines.contains("PATCH /contacts/\(id)"))
        #expect(upstream.effects.first { $0.path == "/notes" }?.text == #"{"of":\#(id)}"#)
    }

    @Test func `a failing route delays only its own mutations, also those that come later`() async throws {
        let upstream = FakeUpstream { request, _ in request.path == "/reports" ? .status(503) : nil }
        let harness = try await DispatcherHarness(settings: Self.settings, upstream: upstream)
        let failing = (0..<6).map { _ in harness.create("report") }
        let others = (0..<12).map { _ in harness.create() }
        try await harness.phone.push(failing + others)
        for entry in others { try await harness.mutation(entry.id, is: .succeeded) }
        for entry in failing {
            try await harness.mutation(entry.id, becomes: "in back-off") { $0.status == "pending" && $0.attempts == 1 }
        }
        let lane = try await harness.restingLane()
        #expect(lane.queue.count == 6 && lane.readyAt.map { $0 > harness.gateway.clock.now } == true)
        // the lane waits for the back-off, and a new mutation does not
        let late = harness.create()
        try await harness.phone.push([late])
        try await harness.mutation(late.id, is: .succeeded)
        #expect(try await harness.mutation(failing[0].id).attempts == 1)
    }

    @Test func `a mutation that is pushed while requests hang is sent immediately`() async throws {
        let gate = Gate()
        let upstream = FakeUpstream { request, _ in
            if request.path == "/reports" { await gate.pass() }
            return nil
        }
        let harness = try await DispatcherHarness(settings: Self.settings, upstream: upstream)
        let slow = harness.create("report")
        try await harness.phone.push([slow])
        await gate.arrivals(1)
        let late = harness.create()
        try await harness.phone.push([late])
        try await harness.mutation(late.id, is: .succeeded)
        #expect(try await harness.mutation(slow.id).status == "in_flight")
        gate.open()
        try await harness.mutation(slow.id, is: .succeeded)
    }

    @Test func `a conflict halts the lane, and requests in flight end`() async throws {
        let gate = Gate()
        let upstream = FakeUpstream { request, _ in
            if request.path == "/clashes" { return .status(409, #"{"id":9}"#) }
            if request.path == "/slow" { await gate.pass() }
            return nil
        }
        let harness = try await DispatcherHarness(
            settings: #"{"order":"dependencies","max_in_flight_per_user":2}"#,
            upstream: upstream
        )
        func create(_ path: String) -> Entry { harness.create(extra: ["endpoint": #""\#(path)""#]) }
        let (slow, clash, later) = (create("/slow"), create("/clashes"), create("/later"))
        try await harness.phone.push([slow, clash, later])
        await gate.arrivals(1)
        try await harness.mutation(clash.id, is: .conflict)
        gate.open()
        try await harness.mutation(slow.id, is: .succeeded)
        let lane = try await harness.restingLane()
        #expect(lane.haltedBy == clash.id && lane.isAtRest && lane.readyAt == nil)
        #expect(try await harness.mutation(later.id).status == "pending")
        #expect(!upstream.requests.contains { $0.path == "/later" })
    }

    @Test func `two users share the concurrency of their upstream`() async throws {
        let gate = Gate()
        let traffic = Traffic<UUID>()
        let upstream = FakeUpstream { request, _ in
            traffic.enter(request.user)
            await gate.pass()
            for _ in 0..<10 { await Task.yield() }
            traffic.leave(request.user)
            return nil
        }
        let harness = try await DispatcherHarness(
            settings: #"{"order":"dependencies","max_in_flight_per_user":32}"#,
            upstream: upstream,
            maximumConcurrency: 8
        )
        let phones = [harness.phone, harness.newPhone()]
        // the dispatcher knows the limit of an organization only after the organization's first lane
        try await harness.phone.push([harness.create()])
        await gate.arrivals(1)
        for phone in phones {
            try await phone.push(
                (0..<40).map { _ in
                    phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
                }
            )
        }
        gate.open()
        try await harness.until("all requests are done") { upstream.effects.count == 81 }
        #expect(phones.allSatisfy { (traffic.most[$0.user] ?? 0) <= 8 })
    }

    @Test(arguments: [1, 2, 16]) func `all requests of an organization are within the limit of its upstream`(
        _ limit: Int
    ) async throws {
        let (gate, traffic) = (Gate(), Traffic<UUID>())
        let upstream = FakeUpstream { request, _ in
            traffic.enter(request.organization)
            await gate.pass()
            for _ in 0..<10 { await Task.yield() }
            traffic.leave(request.organization)
            return nil
        }
        let harness = try await DispatcherHarness(
            settings: #"{"order":"dependencies"}"#,
            upstream: upstream,
            maximumConcurrency: limit
        )
        for phone in (0..<12).map({ _ in harness.newPhone() }) {
            try await phone.push(
                (0..<4).map { _ in
                    phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
                }
            )
        }
        await gate.arrivals(min(limit, 12))
        gate.open()
        try await harness.until("all requests are done") { upstream.effects.count == 48 }
        #expect((traffic.most[harness.organization.id] ?? 0) <= limit)
    }

    @Test func `a user whose requests hang leaves requests to other users`() async throws {
        let (gate, hanging) = (Gate(), Shared<UUID?>(nil))
        let upstream = FakeUpstream { request, _ in
            if request.user == hanging.value { await gate.pass() }
            return nil
        }
        let harness = try await DispatcherHarness(
            settings: #"{"order":"dependencies","max_in_flight_per_user":32}"#,
            upstream: upstream,
            maximumConcurrency: 8
        )
        hanging.value = harness.phone.user
        try await harness.phone.push((0..<20).map { _ in harness.create() })
        await gate.arrivals(4)
        let other = harness.newPhone()
        let entries = (0..<20).map { _ in
            other.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
        }
        try await other.push(entries)
        for entry in entries { try await harness.mutation(entry.id, of: other, is: .succeeded) }
        #expect(try await harness.count("status = 'in_flight'") == 4)
        gate.open()
    }

    // MARK: - Lost workers

    private struct Worker {
        let harness: DispatcherHarness
        let id = UUID()
        var progress = LaneProgress()

        mutating func step(_ step: LaneStep, _ flights: [Dispatch] = []) async throws -> LaneAction {
            progress.flights = flights.map { LaneFlight(of: $0) }
            let turn = try await harness.gateway.store.lanes.step(step, of: harness.key, worker: id, progress: progress)
            progress.step += 1
            return turn
        }
    }

    @Test func `all requests of a lost worker are sent again under their keys`() async throws {
        let harness = try await DispatcherHarness(settings: Self.settings, isRunning: false)
        let entries = (0..<6).map { _ in harness.create() }
        try await harness.phone.push(entries)
        var (lost, next) = (Worker(harness: harness), Worker(harness: harness))
        let first = try await lost.step(.claim).dispatches
        #expect(first.map(\.mutation.id) == entries.prefix(4).map(\.id))
        #expect(try await next.step(.claim).isLost)
        harness.gateway.clock.advance(seconds: 121)
        next = Worker(harness: harness)
        let again = try await next.step(.claim).dispatches
        #expect(again.map(\.mutation.id) == entries.prefix(4).map(\.id))
        #expect(again.allSatisfy { $0.mutation.isOutcomeUnknown && $0.mutation.attemptCount == 1 })
        #expect(again.map { $0.request?.idempotencyKey } == first.map { $0.request?.idempotencyKey })
        // a late outcome is dropped
        let outcome = harness.outcome(.status(201, #"{"id":1}"#), to: first[0])
        #expect(try await lost.step(.settle(first[0], outcome), Array(first.dropFirst())).isLost)
        #expect(try await harness.count("status = 'in_flight'") == 4)
    }

    @Test func `a repeated step changes the lane once`() async throws {
        let harness = try await DispatcherHarness(settings: Self.settings, isRunning: false)
        let entries = (0..<6).map { _ in harness.create() }
        try await harness.phone.push(entries)
        var worker = Worker(harness: harness)
        let flights = try await worker.step(.claim).dispatches
        let outcome = harness.outcome(.status(201, #"{"id":1}"#), to: flights[0])
        let (step, others) = (LaneStep.settle(flights[0], outcome), Array(flights.dropFirst()))
        var late = worker
        let first = try await worker.step(step, others)
        #expect(first.dispatches.map(\.mutation.id) == [entries[4].id])
        let second = try await late.step(step, others)
        #expect(second.dispatches.map(\.mutation.id) == [entries[4].id])
        #expect(second.dispatches.first?.mutation.attemptCount == 0, "the first start was never sent")
        let lane = try await harness.lane()
        #expect(lane.queue.count == 5 && lane.openCount == 5 && lane.lease.step == 2)
        #expect(try await harness.count("status = 'in_flight'") == 4)
        #expect(try await harness.count("status = 'succeeded'") == 1)
    }

    /// Of a user of another organization, nothing changes.
    @Test func `several outcomes are written by one step, each with its effects`() async throws {
        let harness = try await DispatcherHarness(settings: Self.settings, isRunning: false)
        let other = try await DispatcherHarness(settings: Self.settings, gateway: harness.gateway, isRunning: false)
        let locals = (0..<4).map { _ in UUID() }
        let entries = locals.map { harness.create(local: $0) }
        let note = harness.create("note", payload: #"{"of":"\#(locals[0].lowercased)"}"#)
        try await harness.phone.push(entries + [note])
        try await other.phone.push(locals.map { other.create(local: $0) })
        var worker = Worker(harness: harness)
        let flights = try await worker.step(.claim).dispatches
        #expect(flights.count == 4)
        let before = try await harness.lane()
        let answers: [UpstreamAnswer] = [.status(201, #"{"id":1}"#), .status(422), .status(409), .status(503)]
        let results = zip(flights, answers).map { RequestResult($0, harness.outcome($1, to: $0)) }
        let late = worker
        let turn = try await worker.step(.settle(results))
        #expect(turn.dispatches.isEmpty, "a conflict halts the lane")
        for (entry, status) in zip(entries, [MutationStatus.succeeded, .failed, .conflict, .pending]) {
            #expect(try await harness.mutation(entry.id).status == status.rawValue)
        }
        #expect(try await harness.mutation(note.id).status == "pending", "its dependency is met")
        let lane = try await harness.lane()
        #expect(lane.haltedBy == entries[2].id && lane.changePosition == before.changePosition + 1)
        #expect(lane.queue.count == 2 && lane.openCount == 4 && lane.inFlight == nil)
        #expect(try await harness.count("status = 'in_flight'") == 0)
        #expect(try await other.count("status = 'pending'") == 4)
        // the answer to the step was lost: made again, it changes nothing
        var repeating = late
        _ = try await repeating.step(.settle(results))
        let again = try await harness.lane()
        #expect(again.queue.count == 2 && again.openCount == 4 && again.haltedBy == entries[2].id)
        #expect(try await harness.mutation(entries[3].id).attempts == 1)
    }

    @Test func `several outcomes of a lost worker are dropped together`() async throws {
        let harness = try await DispatcherHarness(settings: Self.settings, isRunning: false)
        let entries = (0..<4).map { _ in harness.create() }
        try await harness.phone.push(entries)
        var (lost, next) = (Worker(harness: harness), Worker(harness: harness))
        let flights = try await lost.step(.claim).dispatches
        harness.gateway.clock.advance(seconds: 121)
        _ = try await next.step(.claim)
        let results = flights.enumerated().map { index, dispatch in
            RequestResult(dispatch, harness.outcome(.status(201, #"{"id":\#(index + 1)}"#), to: dispatch))
        }
        #expect(try await lost.step(.settle(results)).isLost)
        #expect(try await harness.count("status = 'in_flight' AND server_id IS NULL") == 4)
    }

    @Test func `a change to the order of the lane waits for the requests in flight`() async throws {
        let harness = try await DispatcherHarness(settings: Self.settings, isRunning: false)
        let entries = (0..<6).map { _ in harness.create() }
        try await harness.phone.push(entries)
        var worker = Worker(harness: harness)
        var flights = try await worker.step(.claim).dispatches
        try await harness.execute(
            "UPDATE organizations SET settings = '{\"order\":\"lane\"}' WHERE id = '\(harness.organization.id)'"
        )
        harness.gateway.store.catalog.invalidate(harness.organization.id)
        for number in 1...4 {
            let ended = flights.removeFirst()
            let outcome = harness.outcome(.status(201, #"{"id":\#(number)}"#), to: ended)
            let turn = try await worker.step(.settle(ended, outcome), flights)
            if number < 4 {
                #expect(turn.dispatches.isEmpty && !turn.isReleased)
            } else {
                #expect(turn.dispatch?.mutation.id == entries[4].id, "one at a time from here on")
            }
        }
    }

    // MARK: - Pauses and routes

    @Test func `a paused upstream gets no requests, and the lane continues after the pause`() async throws {
        let harness = try await DispatcherHarness()
        try await harness.execute(
            "UPDATE upstreams SET is_paused = true WHERE organization_id = '\(harness.organization.id)'"
        )
        harness.gateway.store.catalog.invalidate(harness.organization.id)
        let create = harness.create()
        try await harness.phone.push([create])
        let clock = harness.gateway.clock
        try await waitUntil("the lane waits") { try await harness.lane().readyAt.map { $0 > clock.now } ?? false }
        let waiting = try await harness.mutation(create.id)
        #expect(waiting.status == "pending" && waiting.attempts == 0 && harness.upstream.requests.isEmpty)
        try await harness.execute(
            "UPDATE upstreams SET is_paused = false WHERE organization_id = '\(harness.organization.id)'"
        )
        harness.gateway.store.catalog.invalidate(harness.organization.id)
        harness.gateway.clock.advance(seconds: 31)
        try await harness.mutation(create.id, is: .succeeded)
    }

    @Test(arguments: ["lane", "dependencies"]) func `an upstream gets no more requests per second than its limit`(
        _ order: String
    ) async throws {
        let harness = try await DispatcherHarness(settings: #"{"order":"\#(order)"}"#)
        try await harness.execute(
            "UPDATE upstreams SET requests_per_second = 4 WHERE organization_id = '\(harness.organization.id)'"
        )
        harness.gateway.store.catalog.invalidate(harness.organization.id)
        let entries = (0..<12).map { _ in harness.create() }
        try await harness.phone.push(entries)
        // the bucket is full at first, and the clock does not advance by itself
        for seconds in 0..<3 {
            let most = 4 * (seconds + 1)
            try await waitUntil("\(most) are sent") { harness.upstream.effects.count >= most }
            let waiting = try await harness.count("status = 'pending' AND attempt_count = 0")
            #expect(harness.upstream.effects.count == most && waiting == Int64(12 - most))
            harness.gateway.clock.advance(seconds: 1)
        }
        for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
    }

    @Test func `requests in flight wait for memory if a route multiplies their payloads`() async throws {
        let traffic = Traffic<UUID>()
        let upstream = FakeUpstream { request, _ in
            traffic.enter(request.user)
            for _ in 0..<100 { await Task.yield() }
            traffic.leave(request.user)
            return nil
        }
        let harness = try await DispatcherHarness(settings: Self.settings, upstream: upstream)
        let items = Array(repeating: #"{"$":"/n"}"#, count: 500).joined(separator: ",")
        try await harness.execute(
            """
            INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded, routes)
            VALUES ('\(harness.organization.id)', 'contact', 'mapped', 'user', 0, true,
                '{"create": {"path": "/contacts", "body": [\(items)]}}')
            """
        )
        harness.gateway.store.catalog.invalidate(harness.organization.id)
        // a body of almost 8 MiB counts twice, so a second one of the user exceeds the user's share of 64 MiB
        let payload = #"{"n":"\#(String(repeating: "n", count: 16_000))"}"#
        let creates = (0..<3).map { _ in harness.phone.entry("create", "contact", local: UUID(), payload: payload) }
        try await harness.phone.push(creates)
        for create in creates { try await harness.mutation(create.id, is: .succeeded) }
        #expect(traffic.most[harness.phone.user] == 1 && harness.upstream.requests.count == 3)
    }

    @Test func `a mutation without an endpoint is sent by the route of its type`() async throws {
        let harness = try await DispatcherHarness()
        try await harness.execute(
            """
            INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded, routes)
            VALUES ('\(harness.organization.id)', 'contact', 'mapped', 'user', 0, true, '{"collection": "/v2/contacts"}')
            """
        )
        harness.gateway.store.catalog.invalidate(harness.organization.id)
        let local = UUID()
        let create = harness.phone.entry("create", "contact", local: local)
        let update = harness.phone.entry("update", "contact", local: local, payload: #"{"name":"Ola"}"#)
        try await harness.phone.push([create, update])
        try await harness.mutation(update.id, is: .succeeded)
        #expect(harness.upstream.requests.map(\.line) == ["POST /v2/contacts", "PATCH /v2/contacts/1"])
    }
}
