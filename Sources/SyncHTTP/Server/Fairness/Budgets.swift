package import Metrics
package import SyncModel
import Synchronization

/// The budgets that all requests of a server share.
///
/// No organization reserves more than its share of any budget (product rule 16).
package final class Budgets: Sendable {
    /// The time for which a request waits for a reservation. After this time, the client has given up or should retry.
    private static let timeout: Duration = .seconds(5)
    /// The interval at which waiting requests are checked.
    private static let interval: Duration = .milliseconds(250)
    /// The maximum number of bytes of bodies whose signatures are verified at the same time. The verification of this
    /// many bytes takes a few dozen milliseconds.
    private static let verifyingBytes = 4_194_304

    /// The bytes of bodies. Each body counts from its first byte until its request is done.
    package let bodies: FairBudget
    /// The bytes of bodies whose senders are not authenticated yet.
    package let unverified: UnverifiedBodies
    /// The bytes of bodies whose signatures are being verified.
    package let verifying: AdmissionController
    /// The bytes of bodies that are being decoded, or that are decoded and wait for their commit.
    package let decoding: AdmissionController
    /// The bytes of responses. They are reserved before a response is created, and released when the client has read
    /// it.
    package let answers: AdmissionController
    /// The number of pages that are read at the same time.
    package let pages: AdmissionController
    /// The requests that wait for an event.
    package let waits: FairBudget
    package let slowClients = SlowClientMetrics()

    package init(_ configuration: HTTPConfiguration) {
        bodies = FairBudget(.bodies, limit: configuration.heldBodyBytes, label: HTTPMetrics.heldBodyBytes)
        unverified = UnverifiedBodies(configuration.unverifiedBodies)
        verifying = AdmissionController(.verifying, limit: Self.verifyingBytes, timeout: Self.timeout)
        decoding = AdmissionController(.decoding, limit: configuration.decodedBodyBytes, timeout: Self.timeout)
        answers = AdmissionController(
            .answers,
            limit: configuration.heldAnswerBytes,
            timeout: Self.timeout,
            label: HTTPMetrics.heldAnswerBytes
        )
        pages = AdmissionController(.pages, limit: configuration.concurrentPages, timeout: Self.timeout)
        // each waiting request occupies a connection
        waits = FairBudget(.waits, limit: configuration.maximumConnections, label: HTTPMetrics.waits)
    }

    /// Refuses requests that wait too long for a reservation, while an operation runs.
    package func expiringWaiters(while operation: @escaping @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await operation() }
            group.addTask { [unverified, verifying, decoding, answers, pages] in
                while !Task.isCancelled {
                    try? await Task.sleep(for: Self.interval)
                    unverified.expire()
                    verifying.expire()
                    decoding.expire()
                    answers.expire()
                    pages.expire()
                }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }
}

/// A budget of bytes or requests without a queue: a request that does not fit is refused immediately.
///
/// The budget bounds the resources that clients use in the gateway, regardless of the number of clients. ``FairShares``
/// divides the budget.
package final class FairBudget: Sendable {
    private let overload: Overload
    private let shares: Mutex<FairShares>
    private let meter: Meter

    /// - Parameter label: the label of the metric that shows the reserved amount.
    package init(_ kind: Overload.Kind, limit: Int, label: String) {
        overload = Overload(kind)
        shares = Mutex(FairShares(whole: limit))
        meter = Meter(label: label)
    }

    package var held: Int { shares.withLock { $0.taken } }

    package func held(by user: LaneKey) -> Int { shares.withLock { $0.held(by: user) } }

    /// Reserves an amount if the budget allows it for the user.
    ///
    /// - Parameter own: the amount that the same request has already reserved.
    package func take(_ amount: Int, for user: LaneKey, excluding own: Int = 0) throws(Problem) {
        guard tryAcquire(amount, for: user, excluding: own) else { throw overload.problem() }
    }

    /// Reserves an amount if the budget allows it. A refusal is not counted, because the caller retries.
    package func tryAcquire(_ amount: Int, for user: LaneKey, excluding own: Int = 0) -> Bool {
        let isTaken = shares.withLock { shares in
            guard shares.mayTake(amount, for: user, excluding: own) else { return false }
            shares.take(amount, for: user)
            return true
        }
        if isTaken { meter.increment(by: Double(amount)) }
        return isTaken
    }

    /// Reserves an amount that is too small to be refused.
    package func count(_ amount: Int, for user: LaneKey) {
        shares.withLock { $0.take(amount, for: user) }
        meter.increment(by: Double(amount))
    }

    package func release(_ amount: Int, of user: LaneKey) {
        guard amount > 0 else { return }
        shares.withLock { $0.release(amount, of: user) }
        meter.decrement(by: Double(amount))
    }
}

/// Counts a budget's refusals, and creates the problem for clients whose organization has used its share.
package struct Overload: Sendable {
    /// The kind's name in metrics.
    package enum Kind: String {
        case bodies, unverified, verifying, decoding, answers, pages, waits, listeners
    }

    private let kind: Kind
    private let refusals: Counter

    package init(_ kind: Kind) {
        self.kind = kind
        refusals = Counter(label: HTTPMetrics.overloads, dimensions: [("budget", kind.rawValue)])
    }

    /// Counts a refusal, and returns its problem.
    package func problem() -> Problem {
        refusals.increment()
        var problem = Problem(.overloaded, explanation)
        problem.retryAfter = 1
        return problem
    }

    private var explanation: String {
        switch kind {
        case .bodies: "Too many bytes are being received at once."
        case .unverified, .verifying: "Too many messages are being received at once."
        case .decoding: "Too many pushes are waiting."
        case .answers: "Too many responses have not been read yet."
        case .pages: "Too many pages are being read at once."
        case .waits: "Too many requests are waiting."
        case .listeners: "Too many listeners are connected."
        }
    }
}

/// Counts connections that end because their clients are too slow.
package struct SlowClientMetrics: Sendable {
    /// Connections of clients that did not read a response.
    package let unread = Self.counter("unread")
    /// Connections of clients that did not send a body in time.
    package let lateBody = Self.counter("late_body")

    private static func counter(_ reason: String) -> Counter {
        Counter(label: HTTPMetrics.cutOff, dimensions: [("reason", reason)])
    }
}
