package import FoundationEssentials
package import SyncModel

/// A delivery that a worker sends.
package struct WebhookDelivery: Sendable, Hashable {
    /// The event's id.
    package let id: UUID
    package let event: WebhookEvent
    /// The event's data as a JSON object.
    package let data: [UInt8]
    package let occurredAt: Timestamp
    /// The number of this delivery at its endpoint, which starts at 1.
    package var sequence: Int64
    /// The number of failed attempts.
    package let attemptCount: Int16
    /// The time at which the delivery was recorded, or last retried by an operator.
    package let triedSince: Timestamp

    package init(
        id: UUID,
        event: WebhookEvent,
        data: [UInt8],
        occurredAt: Timestamp,
        sequence: Int64,
        attemptCount: Int16,
        triedSince: Timestamp
    ) {
        self.id = id
        self.event = event
        self.data = data
        self.occurredAt = occurredAt
        self.sequence = sequence
        self.attemptCount = attemptCount
        self.triedSince = triedSince
    }
}

/// An endpoint's response.
package enum WebhookAnswer: Sendable, Hashable {
    /// The status of a response.
    ///
    /// - Parameter retryAt: the time from `Retry-After`.
    case status(Int, retryAt: Timestamp?)
    /// There was no response. The text is a short reason without secrets.
    case none(String)
}

/// The state of a delivery after an attempt.
package struct WebhookOutcome: Sendable, Hashable {
    package enum Status: String, Sendable, Hashable, CaseIterable {
        /// The delivery is to be attempted again, at ``nextAttempt``.
        case waiting
        case delivered
        /// The delivery was given up; an operator can retry it.
        case dead
    }

    package let id: UUID
    package let status: Status
    package let attemptCount: Int16
    package let nextAttempt: Timestamp
    package let lastStatus: Int16?
    package let lastError: String?
}

/// An endpoint's circuit breaker: the results of the last attempts to deliver messages to the endpoint.
///
/// All replicas share this state, because it is stored in the endpoint's row. The type does no I/O and has no clock.
package struct WebhookHealth: Sendable, Hashable {
    /// The number of consecutive failures after which deliveries are attempted one at a time, each after a pause.
    package static let threshold: Int32 = 5
    /// The first and the longest pause, in seconds, before jitter.
    static let firstPause: Double = 5
    static let longestPause: Double = 600

    /// The number of failures since the last success. Failures of concurrent attempts count as one failure.
    package private(set) var failureCount: Int32
    /// The time of the first failure since the last success.
    package private(set) var failingSince: Timestamp?
    /// The time before which nothing is sent.
    package private(set) var pausedUntil: Timestamp?
    package private(set) var lastError: String?
    /// Whether the endpoint responded with 410: it accepts no more deliveries.
    package private(set) var isGone = false

    package init(
        failureCount: Int32 = 0,
        failingSince: Timestamp? = nil,
        pausedUntil: Timestamp? = nil,
        lastError: String? = nil
    ) {
        self.failureCount = failureCount
        self.failingSince = failingSince
        self.pausedUntil = pausedUntil
        self.lastError = lastError
    }

    /// Whether only one delivery is attempted, and all other deliveries wait for its result.
    package var isOpen: Bool { failureCount >= Self.threshold }

    /// Whether nothing is to be sent now.
    package func rests(at now: Timestamp) -> Bool { isGone || pausedUntil.map { $0 > now } ?? false }

    /// Records a response.
    ///
    /// - Parameters:
    ///   - jitter: 0 to 1; 1 makes the pause a fifth longer.
    ///   - isSameRound: whether the attempt began before the last failure was recorded. If such an attempt fails, both
    ///     failures count as one, because the second failure shows nothing new about the endpoint.
    package mutating func record(_ answer: WebhookAnswer, now: Timestamp, jitter: Double, isSameRound: Bool = false) {
        guard let error = answer.error else {
            self = WebhookHealth()
            return
        }
        let counts = !isSameRound || failureCount == 0
        if counts { failureCount = min(failureCount + 1, 1_000_000) }
        failingSince = failingSince ?? now
        lastError = error
        if answer.isGone { isGone = true }
        var until: [Timestamp] = []
        if isOpen, counts {
            let doubled = Self.firstPause * Double(1 << min(failureCount - Self.threshold, 20))
            until.append(now.adding(seconds: min(Self.longestPause, doubled) * (1 + 0.2 * min(max(jitter, 0), 1))))
        }
        if let retryAt = answer.throttledUntil {
            // if the endpoint requests a longer pause, deliveries are nevertheless attempted again after the longest
            // allowed pause
            until.append(min(retryAt, now.adding(seconds: WebhookSchedule.longestThrottle)))
        }
        if let latest = until.max() { pausedUntil = latest }
    }
}

extension WebhookAnswer {
    /// The reason why the response is not a success; nil for a success.
    package var error: String? {
        switch self {
        case .status(200...299, _): nil
        case .status(410, _): "the endpoint answered 410, so deliveries to it stop"
        case .status(let status, _) where (300...399).contains(status):
            "the endpoint answered with a redirect (\(status)), which is not followed; use the final URL"
        case .status(let status, _): "the endpoint answered \(status)"
        case .none(let reason): reason
        }
    }

    var isGone: Bool { if case .status(410, _) = self { true } else { false } }

    /// The end of the pause that the endpoint requests with `Retry-After` in a response that signals overload.
    var throttledUntil: Timestamp? {
        if case .status(429, let retryAt) = self { return retryAt }
        if case .status(502...504, let retryAt) = self { return retryAt }
        return nil
    }
}

/// The schedule of a delivery's attempts: three days, with growing pauses.
package enum WebhookSchedule {
    /// Seconds after each failed attempt. Their sum, including jitter, is less than three days.
    static let pauses: [Double] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 64_800, 64_800]
    /// The maximum time for which a delivery waits while its endpoint is paused, in seconds: three days.
    package static let window: Double = 259_200
    /// The longest time from `Retry-After` that is accepted, in seconds.
    package static let longestThrottle: Double = 3_600
    /// The maximum number of attempts of a delivery.
    package static var attempts: Int { pauses.count + 1 }

    /// Returns the state of a delivery after an attempt.
    ///
    /// - Parameter jitter: 0 to 1; 1 makes the pause a twentieth longer.
    package static func outcome(
        of delivery: WebhookDelivery,
        _ answer: WebhookAnswer,
        now: Timestamp,
        jitter: Double
    ) -> WebhookOutcome {
        let count = delivery.attemptCount < .max ? delivery.attemptCount + 1 : .max
        var status = WebhookOutcome.Status.delivered
        var next = now
        if answer.error != nil {
            let isLast = Int(count) > pauses.count || delivery.isOld(at: now) || answer.isGone
            status = isLast ? .dead : .waiting
            if !isLast {
                next = now.adding(seconds: pauses[Int(count) - 1] * (1 + 0.05 * min(max(jitter, 0), 1)))
                if let retryAt = answer.throttledUntil {
                    next = max(next, min(retryAt, now.adding(seconds: longestThrottle)))
                }
            }
        }
        return WebhookOutcome(
            id: delivery.id,
            status: status,
            attemptCount: count,
            nextAttempt: next,
            lastStatus: answer.code,
            lastError: answer.error
        )
    }

    /// Returns the state of a delivery that was not sent because the endpoint does not respond.
    ///
    /// The delivery is given up after it has waited for three days. Until then, the result is nil.
    package static func outcome(ofUnsent delivery: WebhookDelivery, now: Timestamp) -> WebhookOutcome? {
        guard delivery.isOld(at: now) else { return nil }
        return WebhookOutcome(
            id: delivery.id,
            status: .dead,
            attemptCount: delivery.attemptCount,
            nextAttempt: now,
            lastStatus: nil,
            lastError: "the endpoint has not responded for three days"
        )
    }
}

extension WebhookDelivery {
    fileprivate func isOld(at now: Timestamp) -> Bool {
        triedSince.adding(seconds: WebhookSchedule.window) <= now
    }
}

extension WebhookAnswer {
    fileprivate var code: Int16? {
        if case .status(let status, _) = self { Int16(exactly: status) } else { nil }
    }
}
