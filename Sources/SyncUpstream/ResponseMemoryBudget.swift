import AsyncHTTPClient
package import FoundationEssentials
package import NIOCore
import SyncModel
import Synchronization

/// The memory for the bodies of upstreams' responses, shared by all organizations (``FairSemaphore``).
///
/// A response claims memory before its body is read. While no memory is free, the gateway does not read from the
/// connection, and TCP's flow control delays the upstream. The wait does not extend the request's time limit.
package final class ResponseMemoryBudget: Sendable {
    /// The number of bytes that are claimed first for a body of unknown length. If the body exceeds half of this
    /// number, more memory is claimed.
    static let firstPart = 65_536
    /// The maximum time in the queue. No response waits this long, because a wait ends when its request ends.
    private static let timeout: Duration = .seconds(86_400)

    private struct Waiter {
        let claim: Claim
        let bytes: Int
        let promise: EventLoopPromise<Void>
    }

    private struct State {
        var semaphore: FairSemaphore
        var waiters: [FairSemaphore.Ticket: Waiter] = [:]
    }

    private let whole: Int
    private let state: Mutex<State>

    package init(bytes: Int) {
        whole = bytes
        state = Mutex(State(semaphore: FairSemaphore(whole: bytes, timeout: Self.timeout)))
    }

    /// The number of claimed bytes.
    package var held: Int { state.withLock { $0.semaphore.shares.taken } }

    /// The number of responses that wait for memory.
    package var waiting: Int { state.withLock { $0.semaphore.waiting } }

    /// - Parameter deadline: the time at which a wait for memory ends.
    package func claim(for organization: UUID, user: UUID, until deadline: NIODeadline) -> Claim {
        Claim(self, LaneKey(organization: organization, user: user), until: deadline)
    }

    /// The memory of one response. Releasing the claim returns the memory to the budget.
    package final class Claim: Sendable {
        private struct Held {
            var bytes = 0
            var ticket: FairSemaphore.Ticket?
            var isEnded = false
        }

        private let semaphore: ResponseMemoryBudget
        private let user: LaneKey
        private let deadline: NIODeadline
        private let held = Mutex(Held())

        fileprivate init(_ semaphore: ResponseMemoryBudget, _ user: LaneKey, until deadline: NIODeadline) {
            self.semaphore = semaphore
            self.user = user
            self.deadline = deadline
        }

        deinit {
            let bytes = held.withLock { $0.bytes }
            if bytes > 0 { semaphore.release(bytes, of: user) }
        }

        package var bytes: Int { held.withLock { $0.bytes } }

        /// Extends the claim to a number of bytes.
        ///
        /// - Returns: a future that completes when the memory is available; nil if it is available immediately.
        func extend(to bytes: Int, on loop: any EventLoop) -> EventLoopFuture<Void>? {
            let more = min(bytes, max(1, semaphore.whole / 4)) - self.bytes
            guard more > 0, let wait = semaphore.take(more, for: self, user, on: loop) else { return nil }
            // this timer is needed because the client's own deadline does not end a request if the complete response
            // has arrived and was not read yet
            let timer = loop.scheduleTask(deadline: deadline) { self.stopWaiting() }
            wait.whenComplete { _ in timer.cancel() }
            return wait
        }

        /// Ends a wait for memory, because the request has ended.
        package func stopWaiting() {
            let ticket = held.withLock { held in
                held.isEnded = true
                defer { held.ticket = nil }
                return held.ticket
            }
            if let ticket { semaphore.leave(ticket) }
        }

        fileprivate func add(_ bytes: Int) {
            held.withLock { held in
                held.bytes += bytes
                held.ticket = nil
            }
        }

        /// Records the ticket of a wait. Returns whether the request has already ended.
        fileprivate func waits(by ticket: FairSemaphore.Ticket) -> Bool {
            held.withLock { held in
                if !held.isEnded { held.ticket = ticket }
                return held.isEnded
            }
        }
    }

    private func take(_ bytes: Int, for claim: Claim, _ user: LaneKey, on loop: any EventLoop) -> EventLoopFuture<Void>?
    {
        let promise = loop.makePromise(of: Void.self)
        let (isTaken, isEnded) = state.withLock { state in
            if state.semaphore.tryAcquire(bytes, for: user) {
                claim.add(bytes)
                return (true, false)
            }
            let ticket = state.semaphore.wait(for: bytes, by: user, now: .now)
            if claim.waits(by: ticket) {
                state.semaphore.leave(ticket)
                return (false, true)
            }
            state.waiters[ticket] = Waiter(claim: claim, bytes: bytes, promise: promise)
            return (false, false)
        }
        if isTaken {
            promise.succeed()
            return nil
        }
        if isEnded { promise.fail(HTTPClientError.deadlineExceeded) } else { settle() }
        return promise.futureResult
    }

    private func leave(_ ticket: FairSemaphore.Ticket) {
        let waiter = state.withLock { state in
            state.semaphore.leave(ticket)
            return state.waiters.removeValue(forKey: ticket)
        }
        waiter?.promise.fail(HTTPClientError.deadlineExceeded)
        settle()
    }

    private func release(_ bytes: Int, of user: LaneKey) {
        state.withLock { $0.semaphore.release(bytes, of: user) }
        settle()
    }

    private func settle() {
        let admitted = state.withLock { state -> [Waiter] in
            guard state.semaphore.waiting > 0 else { return [] }
            let admitted = state.semaphore.settle(now: .now).admitted.compactMap {
                state.waiters.removeValue(forKey: $0)
            }
            for waiter in admitted { waiter.claim.add(waiter.bytes) }
            return admitted
        }
        for waiter in admitted { waiter.promise.succeed() }
    }
}

extension MemoryReservation {
    /// Keeps a response's memory reservation until the response is used.
    convenience init(_ claim: ResponseMemoryBudget.Claim) {
        self.init { withExtendedLifetime(claim) {} }
    }
}
