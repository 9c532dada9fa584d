/// Determines the outcome of a mutation from the upstream's response. This type does no I/O.
///
/// The planner applies product rules 6, 7, 11 and 12.
public struct OutcomePlanner: Sendable {
    public let policy: RetryPolicy

    public init(policy: RetryPolicy) {
        self.policy = policy
    }

    /// - Parameters:
    ///   - othersSucceeded: whether the upstream has accepted another request since the mutation was first held.
    ///     Relevant only if ``UpstreamAnswer/mayNeedOperator`` is true for the response.
    ///   - jitter: a random number from 0 to 1, new for each attempt.
    public func outcome(
        of answer: UpstreamAnswer,
        to dispatch: Dispatch,
        othersSucceeded: Bool = false,
        now: Timestamp,
        jitter: Double
    ) -> Outcome {
        guard case .upstream(let request, let upstream) = dispatch.destination else {
            return abandoned(dispatch)
        }
        let attempt = Attempt(
            dispatch: dispatch,
            request: request,
            upstream: upstream,
            policy: policy,
            othersSucceeded: othersSucceeded,
            now: now,
            jitter: jitter
        )
        switch answer {
        case .response(let response): return attempt.outcome(of: response)
        case .notSent(let reason):
            return attempt.notAnswered("the upstream could not be reached: \(reason)")
        case .refused(let reason): return attempt.refused(reason)
        case .unready(let reason): return attempt.unready(reason)
        case .unknown(let reason):
            var outcome = attempt.notAnswered("the upstream did not respond: \(reason)")
            outcome.isOutcomeUnknown = true
            return outcome
        }
    }

    /// The outcome of a request that the worker abandoned during a shutdown.
    ///
    /// The request may have taken effect. If the request was not the last attempt, it is sent again immediately.
    public func abandoned(_ dispatch: Dispatch) -> Outcome {
        var outcome = Outcome(.pending, .abandoned, of: dispatch, isOpen: true)
        outcome.isOutcomeUnknown = true
        outcome.hold = dispatch.mutation.hold
        outcome.lastError = "the gateway stopped during the request"
        if dispatch.attempts >= dispatch.mutation.maxAttempts {
            outcome.status = .failed
            outcome.error = Problem.exhausted(dispatch.attempts, "the outcome of the last attempt is unknown").json
        }
        return outcome
    }
}

extension Problem {
    static func exhausted(_ attempts: Int16, _ reason: String) -> Problem {
        Problem(.maxAttemptsReached, "failed after \(attempts) attempts; \(reason)")
    }
}
