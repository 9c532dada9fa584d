import AsyncHTTPClient
package import FoundationEssentials
package import NIOCore
import SyncModel
import Synchronization

/// The memory for the bodies of upstreams' responses, shared by all organizations (``FairSemaphore``).
///
/// A response claims memory before its body is read. While no memory is free, the gateway does not read from the
/// connection, and TCP's flow control delays the upstream. The wait does not extend the request's time limit.
///
/// At most three quarters of the memory are available to responses that are not fast. Without this limit, many
/// organizations with slow upstreams could hold all memory, and other organizations' responses would wait for the
/// time-outs of these upstreams.
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

    fileprivate enum Part {
        /// The memory for all responses.
        case whole
        /// The part of the memory that is available to responses that are not fast.
        case slow
    }

    private struct Memory {
        var semaphore: FairSemaphore
        var waiters: [FairSemaphore.Ticket: Waiter] = [:]

        init(bytes: Int) {
            semaphore = FairSemaphore(whole: bytes, timeout: ResponseMemoryBudget.timeout)
        }
    }

    private struct State {
        var whole: Memory
        var slow: Memory

        subscript(part: Part) -> Memory {
            get { part == .whole ? whole : slow }
            _modify { if part == .whole { yield &whole } else { yield &slow } }
        }
    }

    private let whole: Int
    private let state: Mutex<State>

    package init(bytes: Int) {
        whole = bytes
        state = Mutex(State(whole: Memory(bytes: bytes), slow: Memory(bytes: max(1, bytes / 4 * 3))))
    }

    /// The number of claimed bytes.
    package var held: Int { state.withLock { $0.whole.semaphore.shares.taken } }

    /// The number of responses that wait for memory.
    package var waiting: Int {
        state.withLock { $0.whole.semaphore.waiting + $0.slow.semaphore.waiting }
    }

    /// - Parameters:
    ///   - isFast: whether a mutation's user waits for the response, and the upstream has answered fast until now.
    ///   - deadline: the time at which a wait for memory ends.
    package func claim(for organization: UUID, user: UUID, isFast: Bool, until deadline: NIODeadline) -> Claim {
        Claim(self, LaneKey(organization: organization, user: user), isFast: isFast, until: deadline)
    }

    /// The memory of one response. Releasing the claim returns the memory to the budget.
    package final class Claim: Sendable {
        private struct Held {
            var bytes = 0
            /// The bytes of ``Part/slow``.
            var slowBytes = 0
            var wait: (part: Part, ticket: FairSemaphore.Ticket)?
            var isEnded = false
        }

        private let semaphore: ResponseMemoryBudget
        private let user: LaneKey
        private let isFast: Bool
        private let deadline: NIODeadline
        private let held = Mutex(Held())

        fileprivate init(
            _ semaphore: ResponseMemoryBudget,
            _ user: LaneKey,
            isFast: Bool,
            until deadline: NIODeadline
        ) {
            self.semaphore = semaphore
            self.user = user
            self.isFast = isFast
            self.deadline = deadline
        }

        deinit {
            let (bytes, slowBytes) = held.withLock { ($0.bytes, $0.slowBytes) }
            if bytes > 0 { semaphore.release(bytes, of: .whole, user) }
            if slowBytes > 0 { semaphore.release(slowBytes, of: .slow, user) }
        }

        package var bytes: Int { held.withLock { $0.bytes } }

        /// Extends the claim to a number of bytes.
        ///
        /// - Returns: a future that completes when the memory is available; nil if it is available immediately.
        func extend(to bytes: Int, on loop: any EventLoop) -> EventLoopFuture<Void>? {
            let more = min(bytes, max(1, semaphore.whole / 4)) - self.bytes
            guard more > 0, let wait = take(more, on: loop) else { return nil }
            // this timer is needed because the client's own deadline does not end a request if the complete response
            // has arrived and was not read yet
            let timer = loop.scheduleTask(deadline: deadline) { self.stopWaiting() }
            wait.whenComplete { _ in timer.cancel() }
            return wait
        }

        private func take(_ more: Int, on loop: any EventLoop) -> EventLoopFuture<Void>? {
            guard !isFast, let slow = semaphore.take(more, of: .slow, for: self, user, on: loop) else {
                return semaphore.take(more, of: .whole, for: self, user, on: loop)
            }
            return slow.flatMap {
                self.semaphore.take(more, of: .whole, for: self, self.user, on: loop) ?? loop.makeSucceededVoidFuture()
            }
        }

        /// Ends a wait for memory, because the request has ended.
        package func stopWaiting() {
            let wait = held.withLock { held in
                held.isEnded = true
                defer { held.wait = nil }
                return held.wait
            }
            if let wait { semaphore.leave(wait.ticket, of: wait.part) }
        }

        fileprivate func add(_ bytes: Int, of part: Part) {
            held.withLock { held in
                if part == .whole { held.bytes += bytes } else { held.slowBytes += bytes }
                held.wait = nil
            }
        }

        /// Records the ticket of a wait. Returns whether the request has already ended.
        fileprivate func waits(by ticket: FairSemaphore.Ticket, for part: Part) -> Bool {
            held.withLock { held in
                if !held.isEnded { held.wait = (part, ticket) }
                return held.isEnded
            }
        }
    }

    private func take(
        _ bytes: Int,
        of part: Part,
        for claim: Claim,
        _ user: LaneKey,
        on loop: any EventLoop
    ) -> EventLoopFuture<Void>? {
        let promise = loop.makePromise(of: Void.self)
        let (isTaken, isEnded) = state.withLock { state in
            if state[part].semaphore.tryAcquire(bytes, for: user) {
                claim.add(bytes, of: part)
                return (true, false)
            }
            let ticket = state[part].semaphore.wait(for: bytes, by: user, now: .now)
            if claim.waits(by: ticket, for: part) {
                state[part].semaphore.leave(ticket)
                return (false, true)
            }
            state[part].waiters[ticket] = Waiter(claim: claim, bytes: bytes, promise: promise)
            return (false, false)
        }
        if isTaken {
            promise.succeed()
            return nil
        }
        if isEnded { promise.fail(HTTPClientError.deadlineExceeded) } else { settle(part) }
        return promise.futureResult
    }

    private func leave(_ ticket: FairSemaphore.Ticket, of part: Part) {
        let waiter = state.withLock { state in
            state[part].semaphore.leave(ticket)
            return state[part].waiters.removeValue(forKey: ticket)
        }
        waiter?.promise.fail(HTTPClientError.deadlineExceeded)
        settle(part)
    }

    private func release(_ bytes: Int, of part: Part, _ user: LaneKey) {
        state.withLock { $0[part].semaphore.release(bytes, of: user) }
        settle(part)
    }

    private func settle(_ part: Part) {
        let admitted = state.withLock { state -> [Waiter] in
            guard state[part].semaphore.waiting > 0 else { return [] }
            let admitted = state[part].semaphore.settle(now: .now).admitted.compactMap {
                state[part].waiters.removeValue(forKey: $0)
            }
            for waiter in admitted { waiter.claim.add(waiter.bytes, of: part) }
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
