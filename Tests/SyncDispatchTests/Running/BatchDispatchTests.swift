import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// Lanes whose upstream takes batches (product rule 23).
@Suite struct BatchDispatchTests {
    private static let settings = #"{"order":"dependencies","max_in_flight_per_user":4}"#

    /// An upstream that answers batches part by part, and records their sizes.
    private final class Batches: Sendable {
        private struct State {
            var nextID = 1
            var sizes: [Int] = []
        }

        private let state = Mutex(State())
        private let limit: Int
        private let part: @Sendable (JSONValue) -> String?

        /// - Parameters:
        ///   - limit: the largest batch; a larger one is refused with 413.
        ///   - part: the response to a part, without its id; nil for 201 with an id.
        init(limit: Int = .max, part: @escaping @Sendable (JSONValue) -> String? = { _ in nil }) {
            (self.limit, self.part) = (limit, part)
        }

        var sizes: [Int] { state.withLock { $0.sizes } }

        func answer(_ request: UpstreamRequest) -> UpstreamAnswer? {
            guard request.path == "/$batch", let body = request.body, let tree = try? JSONTree(parsing: body) else {
                return nil
            }
            let parts = tree.root.value(at: "/requests")?.elements.map { Array($0) } ?? []
            return state.withLock { state in
                state.sizes.append(parts.count)
                if parts.count > limit { return .status(413) }
                let responses = parts.map { value in
                    let id = value.value(at: "/id")?.string ?? ""
                    if let other = part(value) { return #"{"id":"\#(id)",\#(other)}"# }
                    defer { state.nextID += 1 }
                    return #"{"id":"\#(id)","status":201,"body":{"id":\#(1_000 + state.nextID)}}"#
                }
                return .status(200, #"{"responses":[\#(responses.joined(separator: ","))]}"#)
            }
        }
    }

    static func harness(_ answer: @escaping @Sendable (UpstreamRequest) -> UpstreamAnswer?, most: Int = 100)
        async throws -> DispatcherHarness
    {
        let upstream = FakeUpstream { request, _ in answer(request) }
        let harness = try await DispatcherHarness(settings: settings, upstream: upstream)
        try await setBatch(most: most, harness)
        return harness
    }

    private static func setBatch(most: Int, _ harness: DispatcherHarness) async throws {
        let batch = #"{"path":"/$batch","max_requests":\#(most)}"#
        try await execute(
            "UPDATE upstreams SET batch = '\(batch)' WHERE organization_id = '\(harness.organization.id)'",
            harness
        )
    }

    private static func execute(_ statement: String, _ harness: DispatcherHarness) async throws {
        let connection = try await harness.gateway.database.connect()
        try await connection.execute(script: statement)
        connection.close()
        harness.gateway.store.catalog.invalidate(harness.organization.id)
    }

    @Test func `independent mutations are sent in batches, beyond the limit of requests`() async throws {
        let batches = Batches()
        let harness = try await Self.harness(batches.answer)
        let entries = (0..<40).map { _ in harness.create() }
        try await harness.phone.push(entries)
        for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
        #expect((batches.sizes.max() ?? 0) > 4)
        let lane = try await harness.restingLane()
        #expect(lane.queue.count == 0 && lane.openCount == 0)
    }

    @Test func `all parts of an answer are settled in one transaction`() async throws {
        let batches = Batches { part in
            part.value(at: "/body/name")?.stringEquals("bad") == true ? #""status":422,"body":{"error":"no"}"# : nil
        }
        let singles = Mutex(0)
        let harness = try await Self.harness { request in
            let answer = batches.answer(request)
            if answer == nil { singles.withLock { $0 += 1 } }
            return answer
        }
        let entries = (0..<60).map { harness.create(payload: $0 % 7 == 0 ? #"{"name":"bad"}"# : #"{"name":"good"}"#) }
        try await harness.phone.push(entries)
        for (index, entry) in entries.enumerated() {
            try await harness.mutation(entry.id, is: index % 7 == 0 ? .failed : .succeeded)
        }
        // one transaction has one change position
        let rows = try await harness.read(
            "SELECT count(DISTINCT change_position) FROM mutations WHERE organization_id = '\(harness.organization.id)'"
        )
        let requests = batches.sizes.count + singles.withLock { $0 }
        #expect(try rows.read(0, 0, as: Int64.self) <= Int64(requests))
        #expect(requests < 10)
    }

    @Test func `dependants of all parts are released with them`() async throws {
        let batches = Batches()
        let harness = try await Self.harness(batches.answer)
        let contacts = (0..<30).map { _ in UUID() }
        let creates = contacts.map { harness.create(local: $0) }
        let notes = contacts.map { harness.create("note", payload: #"{"of":"\#($0.lowercased)"}"#) }
        try await harness.phone.push(creates + notes)
        for entry in creates + notes { try await harness.mutation(entry.id, is: .succeeded) }
        #expect(try await harness.count("status = 'blocked' OR blocked_on IS NOT NULL") == 0)
        let lane = try await harness.restingLane()
        #expect(lane.queue.count == 0 && lane.openCount == 0)
    }

    @Test func `a part that fails does not affect the others`() async throws {
        let batches = Batches { part in
            part.value(at: "/body/name")?.stringEquals("bad") == true ? #""status":422,"body":{"error":"no"}"# : nil
        }
        let harness = try await Self.harness(batches.answer)
        let entries = (0..<12).map { harness.create(payload: $0 == 7 ? #"{"name":"bad"}"# : #"{"name":"good"}"#) }
        try await harness.phone.push(entries)
        for (index, entry) in entries.enumerated() {
            try await harness.mutation(entry.id, is: index == 7 ? .failed : .succeeded)
        }
        #expect(try await harness.mutation(entries[7].id)["response"]?["status"]?.int64 == 422)
    }

    @Test func `a batch that is too large is split`() async throws {
        let batches = Batches(limit: 3)
        let harness = try await Self.harness(batches.answer)
        let entries = (0..<24).map { _ in harness.create() }
        try await harness.phone.push(entries)
        for entry in entries {
            let mutation = try await harness.mutation(entry.id, is: .succeeded)
            #expect(mutation.attempts == 1)
        }
        #expect(batches.sizes.contains { $0 > 3 } && batches.sizes.contains { (2...3).contains($0) })
    }

    @Test func `an upstream without batches gets single requests, and no second batch`() async throws {
        let asked = Mutex(0)
        let harness = try await Self.harness { request in
            guard request.path == "/$batch" else { return nil }
            asked.withLock { $0 += 1 }
            return .status(404)
        }
        let entries = (0..<20).map { _ in harness.create() }
        try await harness.phone.push(entries)
        for entry in entries {
            let mutation = try await harness.mutation(entry.id, is: .succeeded)
            #expect(mutation.attempts == 1)
        }
        #expect(asked.withLock { $0 } <= 1)
    }

    @Test(arguments: ["manual", "server_wins", "client_wins"])
    func `a conflict of a whole batch is not a conflict of its parts (rule 23)`(_ strategy: String) async throws {
        let requests = Mutex([String]())
        let harness = try await Self.harness { request in
            requests.withLock { $0.append("\(request.method) \(request.path)") }
            return request.path == "/$batch" ? .status(409, #"{"id":77,"name":"someone else"}"#) : nil
        }
        let entries = (0..<8).map { _ in harness.create(extra: ["conflict_resolution": #""\#(strategy)""#]) }
        try await harness.phone.push(entries)
        for entry in entries {
            let mutation = try await harness.mutation(entry.id, is: .succeeded)
            #expect(mutation.attempts == 1 && mutation["server_id"]?.int64 != 77)
        }
        #expect(requests.withLock { Set($0) } == ["POST /$batch", "POST /contacts"])
    }

    @Test(arguments: [302, 401])
    func `if the upstream refuses only batches, the parts are sent as single requests`(_ status: Int) async throws {
        let asked = Mutex(0)
        let harness = try await Self.harness { request in
            guard request.path == "/$batch" else { return nil }
            asked.withLock { $0 += 1 }
            return .status(status)
        }
        let entries = (0..<12).map { _ in harness.create() }
        try await harness.phone.push(entries)
        for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
        #expect(asked.withLock { $0 } <= 1)
    }

    @Test func `parts of a batch wait as single requests while the upstream refuses all requests`() async throws {
        let singles = Mutex(0)
        let harness = try await Self.harness { request in
            if request.path != "/$batch" { singles.withLock { $0 += 1 } }
            return .status(401)
        }
        let entries = (0..<12).map { _ in harness.create() }
        try await harness.phone.push(entries)
        for entry in entries {
            let held = try await harness.mutation(entry.id, becomes: "held") { $0.nextRetryAt != nil }
            #expect(held.status == "pending")
        }
        #expect(singles.withLock { $0 } <= 4)
    }

    @Test func `a change of the settings ends the refusal of batches`() async throws {
        let asked = Mutex(0)
        let isFixed = Mutex(false)
        let batches = Batches()
        let harness = try await Self.harness { request in
            guard request.path == "/$batch" else { return nil }
            asked.withLock { $0 += 1 }
            return isFixed.withLock { $0 } ? batches.answer(request) : .status(404)
        }
        func push() async throws {
            let entries = (0..<20).map { _ in harness.create() }
            try await harness.phone.push(entries)
            for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
        }
        try await push()
        let refusals = asked.withLock { $0 }
        #expect(refusals > 0)
        isFixed.withLock { $0 = true }
        try await push()
        #expect(asked.withLock { $0 } == refusals)
        try await Self.execute("UPDATE upstreams SET updated_at = updated_at + interval '1 s'", harness)
        try await push()
        #expect(asked.withLock { $0 } > refusals && !batches.sizes.isEmpty)
    }

    @Test func `each part of a batch counts for the upstream's rate`() async throws {
        let batches = Batches()
        let harness = try await Self.harness(batches.answer, most: 50)
        let organization = harness.organization.id
        let rate = "UPDATE upstreams SET requests_per_second = 20 WHERE organization_id = '\(organization)'"
        try await Self.execute(rate, harness)
        let entries = (0..<60).map { _ in harness.create() }
        try await harness.phone.push(entries)
        let deadline = ContinuousClock.now + Waiting.limit
        while batches.sizes.reduce(0, +) < 50, ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(100))
            harness.gateway.clock.advance(seconds: 1)
            harness.dispatcher.poll()
        }
        // a few mutations may be sent as single requests
        #expect(batches.sizes.reduce(0, +) >= 50)
        #expect((batches.sizes.max() ?? 0) >= 15 && batches.sizes.count <= 8)
    }

    @Test func `a mutation that depends on a create of a batch waits for the next batch`() async throws {
        let batches = Batches()
        let harness = try await Self.harness(batches.answer)
        let contact = UUID()
        let first = (0..<3).map { _ in harness.create() }
        let create = harness.create(local: contact)
        let note = harness.create("note", payload: #"{"of":"\#(contact.lowercased)"}"#)
        try await harness.phone.push(first + [create, note])
        for entry in first + [create, note] { try await harness.mutation(entry.id, is: .succeeded) }
        #expect(batches.sizes.allSatisfy { $0 <= 4 })
    }

    @Test func `batches end when the organization returns to the order of the lane`() async throws {
        let batches = Batches()
        let harness = try await Self.harness(batches.answer)
        try await Self.execute(
            "UPDATE organizations SET settings = '{}' WHERE id = '\(harness.organization.id)'",
            harness
        )
        let entries = (0..<6).map { _ in harness.create() }
        try await harness.phone.push(entries)
        for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
        #expect(batches.sizes.isEmpty)
    }

    // MARK: - Limits of the organization

    @Test func `a batch that hangs delays no other user, even the first batch of a gateway`() async throws {
        let gate = Gate()
        let upstream = FakeUpstream { request, _ in
            if request.path == "/$batch" { await gate.pass() }
            return nil
        }
        let harness = try await DispatcherHarness(settings: Self.settings, upstream: upstream)
        try await Self.setBatch(most: 100, harness)
        try await harness.phone.push((0..<6).map { _ in harness.create() })
        await gate.arrivals(1)
        let other = harness.newPhone()
        let entry = other.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
        try await other.push([entry])
        try await harness.mutation(entry.id, of: other, is: .succeeded)
        #expect(upstream.requests.count { $0.path == "/$batch" } == 1)
        gate.open()
    }

    @Test(arguments: [true, false]) func `a lowered limit applies to the next requests of all users`(
        _ isBatched: Bool
    ) async throws {
        let (gate, traffic, batches) = (Shared(Gate()), Traffic<UUID>(), Batches())
        let upstream = FakeUpstream { request, _ in
            traffic.enter(request.organization)
            await gate.value.pass()
            traffic.leave(request.organization)
            return batches.answer(request)
        }
        let harness = try await DispatcherHarness(
            settings: #"{"order":"dependencies"}"#,
            upstream: upstream,
            maximumConcurrency: 16
        )
        if isBatched { try await Self.setBatch(most: 20, harness) }
        let phones = (0..<12).map { _ in harness.newPhone() }
        func push() async throws {
            for phone in phones {
                try await phone.push(
                    (0..<4).map { _ in
                        phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
                    }
                )
            }
        }
        for (limit, count) in [(16, 48), (2, 96)] {
            let change = "UPDATE upstreams SET max_concurrency = \(limit), updated_at = updated_at + interval '1 s'"
            try await Self.execute("\(change) WHERE organization_id = '\(harness.organization.id)'", harness)
            gate.value = Gate()
            traffic.reset()
            try await push()
            await gate.value.arrivals(min(limit, phones.count))
            #expect((traffic.most[harness.organization.id] ?? 0) <= limit)
            gate.value.open()
            try await waitUntil("all mutations are done") { try await harness.count("status = 'succeeded'") == count }
            #expect((traffic.most[harness.organization.id] ?? 0) <= limit)
            try await waitUntil("all lanes are released") { harness.dispatcher.current.running == 0 }
        }
    }

    @Test func `after an answer that is too long, the upstream's next batches have half the size`() async throws {
        let batches = Batches()
        let harness = try await Self.harness { request in
            let answer = batches.answer(request)
            guard answer != nil, (batches.sizes.last ?? 0) > 12 else { return answer }
            let problem = UnusableBody.tooLong(limit: 1_048_576)
            return .response(UpstreamResponse(status: 200, unusableBody: problem))
        }
        try await harness.phone.push((0..<24).map { _ in harness.create() })
        try await waitUntil("the answer was too long") { try await harness.count("next_retry_at IS NOT NULL") > 0 }
        let (other, before) = (harness.newPhone(), batches.sizes)
        let entries = (0..<24).map { _ in
            other.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
        }
        try await other.push(entries)
        for entry in entries {
            #expect(try await harness.mutation(entry.id, of: other, is: .succeeded).attempts == 1)
        }
        let longest = try #require(before.max())
        #expect(batches.sizes.dropFirst(before.count).allSatisfy { $0 <= longest / 2 })
    }
}
