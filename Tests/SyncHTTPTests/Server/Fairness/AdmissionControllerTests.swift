import Foundation
import SyncModel
import SyncStore
import Synchronization
import Testing

@testable import SyncHTTP

@Suite("Waiting for admission", .timeLimit(.minutes(1)))
struct AdmissionControllerTests {
    /// A task that stays inside the gate until it is released.
    private final class Guest: Sendable {
        private let entered: AsyncStream<Void>
        private let leaving: AsyncStream<Void>.Continuation
        private let stay: Task<Void, any Error>

        init(_ gate: AdmissionController, _ bytes: Int, of user: LaneKey) {
            let (entered, tellEntered) = AsyncStream<Void>.makeStream()
            let (left, leaving) = AsyncStream<Void>.makeStream()
            self.entered = entered
            self.leaving = leaving
            stay = Task {
                defer { tellEntered.finish() }
                try await gate.admit(bytes, for: user) {
                    tellEntered.yield()
                    for await _ in left {}
                }
            }
        }

        /// Whether it was admitted.
        func enters() async -> Bool { await entered.first { _ in true } != nil }

        /// Makes the guest leave as soon as it is inside.
        func dismiss() { leaving.finish() }

        func release() async throws {
            dismiss()
            try await stay.value
        }
    }

    private final class Clock: Sendable {
        private let moment = Mutex(ContinuousClock.now)
        var now: ContinuousClock.Instant { moment.withLock { $0 } }
        func advance(by duration: Duration) { moment.withLock { $0 += duration } }
    }

    private let clock = Clock()
    private let noisy = LaneKey(organization: UUID(), user: UUID())
    private let quiet = LaneKey(organization: UUID(), user: UUID())

    private func gate(_ limit: Int = 100) -> AdmissionController {
        AdmissionController(.decoding, limit: limit, timeout: .seconds(5), now: { [clock] in clock.now })
    }

    private func waitUntil(_ gate: AdmissionController, waits count: Int) async {
        while gate.waiting != count { await Task.yield() }
    }

    @Test
    func `another organization's request is admitted although one organization's crowd waits`() async throws {
        let gate = gate()
        let crowd = (0..<20).map { _ in
            Guest(gate, 20, of: LaneKey(organization: noisy.organization, user: UUID()))
        }
        await waitUntil(gate, waits: 18)
        let guest = Guest(gate, 20, of: quiet)
        #expect(await guest.enters())
        #expect(gate.waiting == 18)
        try await guest.release()
        // the order of admission is not defined, so no guest may stay inside until another one has left
        for guest in crowd { guest.dismiss() }
        for guest in crowd { try await guest.release() }
        #expect(gate.waiting == 0)
        #expect(gate.held == 0)
    }

    @Test
    func `admits a request larger than its share and leaves room for others`() async throws {
        let gate = gate(10)
        let large = Guest(gate, 1_000, of: noisy)
        #expect(await large.enters())
        let next = Guest(gate, 1_000, of: quiet)
        #expect(await next.enters())
        try await large.release()
        try await next.release()
    }

    @Test
    func `rejects a request that waited too long, with a Retry-After`() async throws {
        let gate = gate(8)
        let first = Guest(gate, 2, of: noisy)
        #expect(await first.enters())
        let late = Guest(gate, 2, of: noisy)
        await waitUntil(gate, waits: 1)
        clock.advance(by: .seconds(5) + .milliseconds(1))
        let young = Guest(gate, 2, of: noisy)
        await waitUntil(gate, waits: 1)
        let problem = await #expect(throws: Problem.self) { try await late.release() }
        #expect(problem?.code == .overloaded)
        #expect(problem?.retryAfter == 1)
        clock.advance(by: .seconds(6))
        gate.expire()
        await #expect(throws: Problem.self) { try await young.release() }
        try await first.release()
        #expect(gate.held == 0)
    }

    @Test
    func `releases the room when an operation fails`() async throws {
        struct Failure: Error {}
        let gate = gate(4)
        for _ in 0..<3 {
            await #expect(throws: Failure.self) { try await gate.admit(1, for: noisy) { throw Failure() } }
        }
        #expect(gate.held == 0)
    }

    @Test
    func `a response counts with its size until it is sent`() async throws {
        let gate = gate(8_000_000)
        let pages = self.gate(4)
        let hold = ResponseMemoryLease(gate, pages: pages)
        try hold.assign(to: noisy)
        try await hold.acquire()
        try await hold.acquire()
        #expect(gate.held == 2_000_000, "a quarter of the room")
        #expect(pages.held == 1)
        #expect(hold.resize(to: 3_000_000))
        #expect(gate.held == 3_000_000)
        #expect(pages.held == 0, "the page is read")
        hold.release()
        hold.release()
        #expect(gate.held == 0)
        let small = ResponseMemoryLease(gate, pages: self.gate(4))
        try small.assign(to: noisy)
        #expect(!small.resize(to: 1_000))
        #expect(gate.held == 0)
    }

    @Test
    func `a response reserves more room up to the user's share when its size becomes known`() async throws {
        let gate = gate(8_000_000)
        let hold = ResponseMemoryLease(gate, pages: self.gate(4))
        try hold.assign(to: noisy)
        #expect(hold.tryAcquire(ResponseMemoryLease.small))
        #expect(gate.held == 0, "small responses are not counted")
        try await hold.extend(to: 500_000)
        #expect(hold.tryAcquire(400_000))
        #expect(gate.held == 500_000)
        #expect(hold.tryAcquire(1_500_000))
        #expect(gate.held == 1_500_000)
        // the organization's share is half of the room, and the user's share a quarter
        let other = ResponseMemoryLease(gate, pages: self.gate(4))
        try other.assign(to: noisy)
        #expect(other.tryAcquire(500_000))
        #expect(!other.tryAcquire(600_000))
        let waiting = Task { try await other.extend(to: 600_000) }
        await waitUntil(gate, waits: 1)
        hold.release()
        try await waiting.value
        #expect(gate.held == 600_000)
        other.release()
        #expect(gate.held == 0)
    }

    @Test
    func `a page that gets no turn in time reserves no room, and a patient one gets its turn later`() async throws {
        let (gate, pages) = (gate(8_000_000), self.gate(1))
        let guest = Guest(pages, 1, of: noisy)
        #expect(await guest.enters())
        let hold = ResponseMemoryLease(gate, pages: pages)
        try hold.assign(to: quiet)
        let page = Task { try await hold.acquire() }
        await waitUntil(pages, waits: 1)
        clock.advance(by: .seconds(6))
        pages.expire()
        await #expect(throws: Problem.self) { try await page.value }
        #expect(gate.held == 0)
        let patient = Task { try await hold.room().enterPatiently() }
        await waitUntil(pages, waits: 1)
        clock.advance(by: .seconds(6))
        pages.expire()
        // the patient page waits again
        await waitUntil(pages, waits: 1)
        try await guest.release()
        try await patient.value
        #expect(pages.held == 1)
        hold.release()
        #expect(pages.held == 0)
        #expect(gate.held == 0)
    }

    @Test
    func `unread responses limit their own organization but not others`() async throws {
        let gate = gate(8_000_000)
        let unread = ResponseMemoryLease(gate, pages: self.gate(4))
        try unread.assign(to: noisy)
        #expect(unread.resize(to: 5_000_000))
        #expect(throws: Problem.self) { try ResponseMemoryLease(gate, pages: self.gate(4)).assign(to: noisy) }
        try ResponseMemoryLease(gate, pages: self.gate(4)).assign(to: quiet)
        unread.release()
        try ResponseMemoryLease(gate, pages: self.gate(4)).assign(to: noisy)
    }
}
