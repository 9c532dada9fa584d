import SyncModel
import Synchronization
import Testing

@testable import SyncHTTP

@Suite("What is decoded at a time")
struct IntakeGateTests {
    /// Stays inside the gate until it is told to leave.
    private final class Guest: Sendable {
        private let entered: AsyncStream<Void>
        private let leaving: AsyncStream<Void>.Continuation
        private let stay: Task<Void, any Error>

        init(_ gate: IntakeGate, _ bytes: Int) {
            let (entered, tellEntered) = AsyncStream<Void>.makeStream()
            let (left, leaving) = AsyncStream<Void>.makeStream()
            self.entered = entered
            self.leaving = leaving
            stay = Task {
                defer { tellEntered.finish() }
                try await gate.admit(bytes) {
                    tellEntered.yield()
                    for await _ in left {}
                }
            }
        }

        /// Whether it came in.
        func enters() async -> Bool { await entered.first { _ in true } != nil }

        func leave() async throws {
            leaving.finish()
            try await stay.value
        }
    }

    private final class Clock: Sendable {
        private let moment = Mutex(ContinuousClock.now)
        var now: ContinuousClock.Instant { moment.withLock { $0 } }
        func advance(by duration: Duration) { moment.withLock { $0 += duration } }
    }

    private func waitUntil(_ gate: IntakeGate, waits count: Int) async {
        while gate.waiting != count { await Task.yield() }
    }

    @Test("As many enter as have room, the rest in order of arrival", .timeLimit(.minutes(1)))
    func order() async throws {
        let gate = IntakeGate(capacity: 100)
        let first = Guest(gate, 60)
        let second = Guest(gate, 40)
        #expect(await first.enters())
        #expect(await second.enters())
        let large = Guest(gate, 90)
        await waitUntil(gate, waits: 1)
        let small = Guest(gate, 1)
        await waitUntil(gate, waits: 2)
        try await second.leave()
        #expect(gate.waiting == 2, "nobody overtakes: the large one would never get room")
        try await first.leave()
        #expect(await large.enters())
        #expect(await small.enters())
        try await large.leave()
        try await small.leave()
        #expect(gate.waiting == 0)
    }

    @Test("What is larger than the gate enters alone", .timeLimit(.minutes(1)))
    func larger() async throws {
        let gate = IntakeGate(capacity: 10)
        let large = Guest(gate, 1_000)
        #expect(await large.enters())
        let next = Guest(gate, 1)
        await waitUntil(gate, waits: 1)
        try await large.leave()
        #expect(await next.enters())
        try await next.leave()
    }

    @Test("Who has waited too long is turned away, and told when to come back", .timeLimit(.minutes(1)))
    func patience() async throws {
        let clock = Clock()
        let gate = IntakeGate(capacity: 10, now: { clock.now })
        let first = Guest(gate, 10)
        #expect(await first.enters())
        let late = Guest(gate, 5)
        await waitUntil(gate, waits: 1)
        clock.advance(by: IntakeGate.patience + .milliseconds(1))
        let young = Guest(gate, 5)
        await waitUntil(gate, waits: 1)
        let problem = await #expect(throws: Problem.self) { try await late.leave() }
        #expect(problem?.code == .overloaded)
        #expect(problem?.retryAfter == 1)
        try await first.leave()
        #expect(await young.enters())
        try await young.leave()
    }

    @Test("Room comes back when an operation fails")
    func failure() async throws {
        struct Failure: Error {}
        let gate = IntakeGate(capacity: 1)
        for _ in 0..<3 {
            await #expect(throws: Failure.self) { try await gate.admit(1) { throw Failure() } }
        }
    }
}
