import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Many mutations wait for one mutation. All are released, about a thousand at a time, despite interruptions.
@Suite struct UnblockingTests {
    /// Creates, and a number of mutations that wait for each of them.
    private func fill(_ harness: DispatcherHarness, creates: Int, waiters: Int) async throws -> [UUID] {
        let contacts = (0..<creates).map { _ in UUID() }
        let entries =
            contacts.map { harness.create(local: $0) }
            + contacts.flatMap { contact in
                (0..<waiters).map { number in
                    harness.create("activity", payload: #"{"of":"\#(contact.lowercased)","n":\#(number)}"#)
                }
            }
        for start in stride(from: 0, to: entries.count, by: 500) {
            try await harness.phone.push(Array(entries[start..<min(start + 500, entries.count)]))
            // as the server does by itself within a minute
            try await harness.execute("ANALYZE mutations; ANALYZE id_mappings; ANALYZE lanes")
        }
        #expect(try await harness.count("status = 'blocked'") == Int64(creates * waiters))
        return entries.map(\.id)
    }

    @Test func `releases thousands that wait for one, and runs them in order`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let ids = try await fill(harness, creates: 1, waiters: 2_500)
        let worker = UUID()
        let first = try #require(await harness.step(.claim, by: worker).dispatch)
        var turn = try await harness.settle(first, .status(201, #"{"id":1}"#), by: worker)
        #expect(turn.unblocking == [ids[0]])
        #expect(try await harness.count("status = 'pending'") == 1_000)
        while let unblocking = turn.unblocking {
            turn = try await harness.step(.proceed(token: first.token, unblocking: unblocking), by: worker)
        }
        #expect(turn.dispatch?.mutation.id == ids[1])
        #expect(try await harness.count("status = 'blocked'") == 0)
        let lane = try await harness.lane()
        #expect(lane.queue.count == 2_500 && lane.openCount == 2_500)
        var dispatch = try #require(turn.dispatch)
        for number in 2...20 {
            dispatch = try #require(
                await harness.settle(dispatch, .status(201, #"{"id":\#(number)}"#), by: worker).dispatch
            )
            #expect(dispatch.mutation.id == ids[number])
            #expect(dispatch.request?.text == #"{"of":1,"n":\#(number - 1)}"#)
        }
    }

    @Test func `the next worker releases the waiters of a lost one`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let ids = try await fill(harness, creates: 2, waiters: 2_100)
        let lost = UUID()
        let first = try #require(await harness.step(.claim, by: lost).dispatch)
        #expect(try await harness.settle(first, .status(201, #"{"id":1}"#), by: lost).unblocking == [ids[0]])
        let second = try #require(await harness.step(.proceed(token: first.token, unblocking: []), by: lost).dispatch)
        #expect(second.mutation.id == ids[1])
        #expect(try await harness.settle(second, .status(201, #"{"id":2}"#), by: lost).unblocking == [ids[1]])
        #expect(try await harness.count("status = 'blocked'") == 2_200)
        harness.gateway.clock.advance(seconds: 120)
        let next = UUID()
        var turn = try await harness.step(.claim, by: next)
        while let unblocking = turn.unblocking {
            #expect(!unblocking.isEmpty)
            turn = try await harness.step(.proceed(token: first.token + 1, unblocking: unblocking), by: next)
        }
        #expect(turn.dispatch?.mutation.id == ids[2])
        #expect(try await harness.count("status = 'blocked'") == 0)
        #expect(try await harness.lane().queue.count == 4_200)
    }

    /// Many mutations wait for many others. Each step releases a limited number, and each blocker is examined once.
    @Test func `releases waiters of many in limited steps, one blocker at a time`() async throws {
        let (creates, waiters) = (40, 700)
        let harness = try await DispatcherHarness(isRunning: false)
        let contacts = (0..<creates).map { _ in harness.create() }
        try await harness.phone.push(contacts)
        let last = try #require(contacts.last?.local)
        let entries = (0..<waiters).map { _ in
            harness.create("activity", payload: #"{"of":"\#(last.lowercased)"}"#)
        }
        try await harness.phone.push(Array(entries[..<500]))
        try await harness.phone.push(Array(entries[500...]))
        let list = contacts.map { "'\($0.id)'" }.joined(separator: ",")
        try await harness.execute(
            """
            UPDATE mutations SET depends_on = ARRAY[\(list)]::uuid[], blocked_on = '\(contacts[0].id)'
            WHERE organization_id = '\(harness.organization.id)' AND status = 'blocked'
            """
        )
        let worker = UUID()
        var turn = try await harness.step(.claim, by: worker)
        var steps = 0
        for (number, contact) in contacts.enumerated() {
            let dispatch = try #require(turn.dispatch)
            #expect(dispatch.mutation.id == contact.id)
            turn = try await harness.settle(dispatch, .status(201, #"{"id":\#(number + 1)}"#), by: worker)
            steps += 1
            while let unblocking = turn.unblocking {
                #expect(unblocking == [contact.id])
                turn = try await harness.step(.proceed(token: dispatch.token, unblocking: unblocking), by: worker)
                steps += 1
            }
            guard number < creates - 1 else { continue }
            let next = contacts[number + 1].id
            #expect(try await harness.count("blocked_on = '\(next)'") == Int64(waiters))
            if number % 13 == 0 {
                let shown = try await harness.mutation(entries[number].id).blockedBy
                #expect(shown == contacts[(number + 1)...].map(\.id), "finished ones are omitted")
            }
        }
        // a waiter with forty dependencies counts as fifty look-ups, so about three hundred are released at a time
        #expect((2 * creates...4 * creates).contains(steps), "\(steps)")
        #expect(try await harness.count("status = 'blocked'") == 0)
        #expect(turn.dispatch?.mutation.id == entries[0].id)
        #expect(try await harness.lane().queue.count == Int64(waiters))
    }
}
