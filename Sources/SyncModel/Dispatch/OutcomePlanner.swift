import Foundation
import JSONText

/// Decides what an upstream's answer means for the mutation that was sent (product rules 6, 7, 11 and 12). Pure.
package struct OutcomePlanner: Sendable {
    /// When to try again.
    package let policy: RetryPolicy

    /// Creates a planner.
    package init(policy: RetryPolicy) {
        self.policy = policy
    }

    /// What the answer comes to.
    ///
    /// - Parameters:
    ///   - othersSucceeded: whether the upstream has taken something else since the mutation was first held; of interest
    ///     only where the answer ``UpstreamAnswer/mayBeOperatorsTrouble``.
    ///   - jitter: 0 to 1, drawn anew for each attempt.
    package func outcome(
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
            return attempt.notAnswered("the upstream was not reached: \(reason)")
        case .refused(let reason): return attempt.refused(reason)
        case .unready(let reason): return attempt.unready(reason)
        case .unknown(let reason):
            var outcome = attempt.notAnswered("the upstream did not answer: \(reason)")
            outcome.isOutcomeUnknown = true
            return outcome
        }
    }

    /// What becomes of a request that nobody waits for any more: it may have taken effect, and is sent again at once,
    /// unless it was the last.
    package func abandoned(_ dispatch: Dispatch) -> Outcome {
        var outcome = Outcome(.pending, .abandoned, of: dispatch)
        outcome.isOutcomeUnknown = true
        outcome.override = dispatch.mutation.override
        outcome.conflictRetries = dispatch.mutation.conflictRetries
        outcome.hold = dispatch.mutation.hold
        outcome.lastError = "the gateway ended while the request was under way"
        if dispatch.attempts >= dispatch.mutation.maxAttempts {
            outcome.status = .failed
            outcome.error = Problem.exhausted(dispatch.attempts, "the outcome of the last one is unknown").json
        }
        return outcome
    }
}

/// One request and what it may come to.
private struct Attempt {
    let dispatch: Dispatch
    let request: UpstreamRequest
    let upstream: UpstreamSettings
    let policy: RetryPolicy
    let othersSucceeded: Bool
    let now: Timestamp
    let jitter: Double

    private var mutation: QueuedMutation { dispatch.mutation }

    func outcome(of response: UpstreamResponse) -> Outcome {
        switch response.status {
        case 200...299: succeeded(response)
        case 404, 410: mutation.operation == .delete ? succeeded(response) : rejected(response)
        case _ where response.mayBeOperatorsTrouble: othersSucceeded ? rejectedAlone(response) : held(response)
        case 408, 425, 429: again(.deferred, Self.status(response), response)
        case 409: mayBeEcho(response) ? echo(response) : conflict(response)
        case 412: conflict(response)
        case 400...499: rejected(response)
        default: serverError(response)
        }
    }

    // MARK: - Done

    private func succeeded(_ response: UpstreamResponse) -> Outcome {
        var outcome = Outcome(.succeeded, .succeeded, of: dispatch)
        outcome.responseStatus = Int16(response.status)
        outcome.responseBody = response.json
        let shown = UpstreamEntity(in: response, idPointer: upstream.idPointer)
        if mutation.operation == .create {
            // one that has its way over an entity, or that chose its id itself, knows which one it is
            guard let id = dispatch.serverID ?? shown?.id ?? UpstreamEntity(location: response.location)?.id else {
                return unnamed(response)
            }
            outcome.serverID = id
        }
        guard let id = outcome.serverID else { return outcome }
        let testimony = Testimony(about: id, of: mutation, request, response, shown)
        outcome.etag = testimony.etag
        (outcome.entity, outcome.ground) = testimony.change
        return outcome
    }

    /// An answer to an update shows the entity only if it bears its id.
    private func own(_ shown: UpstreamEntity?) -> UpstreamEntity? {
        shown?.id.text == dispatch.serverID?.text ? shown : nil
    }

    /// A create took effect, but nobody can tell as what. An answer that broke off is asked for once more; of one that is
    /// whole a person has to decide (``SettleSubject/mayHaveTakenEffect``).
    private func unnamed(_ response: UpstreamResponse) -> Outcome {
        if response.isCutOff {
            var outcome = again(.unreachable, Self.status(response) + ", but the answer broke off", nil)
            outcome.isOutcomeUnknown = true
            return outcome
        }
        let place = upstream.idPointer
        return failed(
            .upstreamRejected,
            "the upstream answered \(response.status), but names the new entity neither at \(place) nor in Location",
            response
        )
    }

    // MARK: - Refused

    private func rejected(_ response: UpstreamResponse) -> Outcome {
        failed(.upstreamRejected, Self.status(response), response)
    }

    private func failed(_ code: ProblemCode, _ detail: String, _ response: UpstreamResponse) -> Outcome {
        var outcome = Outcome(.failed, .rejected, of: dispatch)
        outcome.responseStatus = Int16(response.status)
        outcome.responseBody = response.json
        outcome.error = Problem(code, detail).json
        outcome.lastError = words(response)
        outcome.lastErrorCode = Int16(response.status)
        return outcome
    }

    // MARK: - Again

    /// Tried again after a while, or given up when the attempts are used up.
    ///
    /// - Parameter reason: without the upstream's body, which belongs to `last_error` and `response`.
    func again(_ kind: Outcome.Kind, _ reason: String, _ response: UpstreamResponse? = nil) -> Outcome {
        var outcome = Outcome(.pending, kind, of: dispatch)
        outcome.lastError = response.map(words) ?? reason
        outcome.lastErrorCode = response.map { Int16($0.status) }
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        outcome.override = mutation.override
        outcome.conflictRetries = mutation.conflictRetries
        guard dispatch.attempts < mutation.maxAttempts else {
            outcome.status = .failed
            outcome.error = Problem.exhausted(dispatch.attempts, String(reason.prefix(200))).json
            return outcome
        }
        outcome.nextRetryAt = policy.nextTry(
            after: dispatch.attempts,
            now: now,
            notBefore: response?.retryAt,
            jitter: jitter
        )
        return outcome
    }

    /// No answer says nothing of whose trouble the answers before it were.
    func notAnswered(_ reason: String) -> Outcome {
        var outcome = again(.unreachable, reason)
        if outcome.status == .pending { outcome.hold = mutation.hold }
        return outcome
    }

    private func serverError(_ response: UpstreamResponse) -> Outcome {
        var outcome = again(.serverError, Self.status(response), response)
        outcome.isOutcomeUnknown = true
        return outcome
    }

    /// It may be the operator's trouble, and as long as that may be no attempt is spent.
    private func held(_ response: UpstreamResponse) -> Outcome {
        let hold = MutationHold.next(after: mutation.hold, now: now)
        var outcome = Outcome(.pending, .misconfigured, of: dispatch)
        outcome.attemptCount = mutation.attemptCount
        outcome.hold = hold
        outcome.nextRetryAt = policy.nextTry(after: hold, now: now, notBefore: response.retryAt, jitter: jitter)
        outcome.lastError = words(response)
        outcome.lastErrorCode = Int16(response.status)
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        outcome.override = mutation.override
        outcome.conflictRetries = mutation.conflictRetries
        return outcome
    }

    /// It is the mutation's own trouble: the upstream takes what others send. Of an earlier attempt such an answer says
    /// nothing, for it need not come from what takes requests.
    private func rejectedAlone(_ response: UpstreamResponse) -> Outcome {
        var outcome = failed(
            .upstreamRejected,
            Self.status(response) + ", and has taken other requests since: this is about this request alone",
            response
        )
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        return outcome
    }

    // MARK: - Not sent

    /// The gateway itself would not send it, now or later: no attempt is spent, and the lane goes on.
    func refused(_ reason: String) -> Outcome {
        let problem = Problem(.validationFailed, "it cannot be sent: \(reason)")
        var outcome = unsent(.failed, problem.detail)
        outcome.error = problem.json
        return outcome
    }

    /// Nothing can be sent as the upstream is set up: the lane waits, as one does that has nowhere to send to, and no
    /// attempt is spent.
    func unready(_ reason: String) -> Outcome {
        var outcome = unsent(.pending, "nothing can be sent to the upstream: \(reason)")
        outcome.nextRetryAt = now.adding(seconds: TurnPlanner.pauseWithoutUpstream)
        return outcome
    }

    private func unsent(_ status: MutationStatus, _ reason: String) -> Outcome {
        var outcome = Outcome(status, .refused, of: dispatch)
        outcome.attemptCount = mutation.attemptCount
        outcome.lastError = reason
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        outcome.override = mutation.override
        outcome.conflictRetries = mutation.conflictRetries
        if status == .pending { outcome.hold = mutation.hold }
        return outcome
    }

    // MARK: - Conflicts

    /// A 409 may be the upstream's way of saying that it has not finished with an earlier attempt under the same key.
    private func mayBeEcho(_ response: UpstreamResponse) -> Bool {
        (response.retryAt != nil || mutation.isOutcomeUnknown)
            && mutation.conflictRetries < RetryPolicy.conflictRetries
    }

    private func echo(_ response: UpstreamResponse) -> Outcome {
        var outcome = again(.deferred, Self.status(response), response)
        outcome.conflictRetries += 1
        return outcome
    }

    private func conflict(_ response: UpstreamResponse) -> Outcome {
        let found = UpstreamEntity(in: response, idPointer: upstream.idPointer)
        let shown = mutation.operation == .create ? found : own(found)
        var outcome = Outcome(.conflict, .conflict, of: dispatch)
        outcome.responseStatus = Int16(response.status)
        outcome.responseBody = response.json
        outcome.lastError = words(response)
        outcome.lastErrorCode = Int16(response.status)
        var problem = Problem(.conflict, Self.status(response))
        if let id = shown?.id ?? dispatch.serverID, let document = shown?.document {
            let etag = etag(of: id, response)
            problem.current = CurrentEntity(type: mutation.entityType, id: id, etag: etag, document: document).json
        }
        outcome.error = problem.json
        // a revision that had its way once and conflicts again is for a person
        guard mutation.resolution == nil else {
            outcome.resolution = nil
            return outcome
        }
        switch mutation.strategy {
        case .manual: return outcome
        case .serverWins: return adopted(outcome, shown, response)
        case .clientWins: return overridden(outcome, shown)
        }
    }

    /// The validator of what stands in the way, where the request was for that and nothing else.
    private func etag(of id: ServerID, _ response: UpstreamResponse) -> String? {
        id.isSegment(of: request.path) ? response.etag : nil
    }

    private func adopted(_ conflict: Outcome, _ shown: UpstreamEntity?, _ response: UpstreamResponse) -> Outcome {
        guard let id = dispatch.serverID ?? shown?.id else { return conflict }
        var outcome = conflict
        outcome.status = .discarded
        outcome.kind = .discarded
        outcome.resolution = .serverWins
        outcome.serverID = id
        if let document = shown?.document { outcome.entity = .document(document, etag: etag(of: id, response)) }
        outcome.ground = .adopted
        return outcome
    }

    private func overridden(_ conflict: Outcome, _ shown: UpstreamEntity?) -> Outcome {
        let id = dispatch.serverID ?? shown?.id
        let override = ClientWins.plan(
            operation: mutation.operation,
            idSpace: dispatch.type.idSpace,
            endpoint: request.path,
            payload: request.body.flatMap { try? JSONTree(parsing: $0).root },
            current: shown?.document,
            serverID: id
        )
        // an answer to a PUT need not say what was written over
        return override.map { conflict.overridden(by: $0, of: id) } ?? conflict
    }

    // MARK: - Words

    /// "Error message or server response body from the most recent failed attempt" (seed 001, `last_error`).
    private func words(_ response: UpstreamResponse) -> String {
        guard let json = response.json else { return Self.status(response) }
        return Self.status(response) + ": " + String(decoding: json.prefix(1_000), as: UTF8.self)
    }

    private static func status(_ response: UpstreamResponse) -> String {
        "the upstream answered \(response.status)" + (response.pointer.map { " (\($0))" } ?? "")
    }
}

extension Problem {
    /// A mutation is out of attempts.
    static func exhausted(_ attempts: Int16, _ reason: String) -> Problem {
        Problem(.maxAttemptsReached, "given up after \(attempts) attempts; \(reason)")
    }
}
