/// An entry of a mutation's history: one request that was sent for the mutation.
///
/// The entry contains no text from a user or an upstream.
public struct AttemptRecord: Sendable, Hashable {
    /// The result of an attempt.
    public enum Result: String, Sendable, Hashable, CaseIterable {
        case succeeded
        /// The request failed, and is sent again.
        case retry
        /// The upstream refused the mutation, or the mutation has no attempts left.
        case failed
        case conflict
        /// The request may have taken effect, but no response was received.
        ///
        /// The upstream sent no response, or the process ended before the response arrived.
        case unknown
        /// The request failed, and the operator's configuration may be the cause of the failure.
        ///
        /// The request is sent again, and does not count as an attempt.
        case held
    }

    /// The maximum number of characters of a stored error.
    static let errorLength = 200

    public let result: Result
    /// The revision that was sent (``QueuedMutation/revision``).
    public let revision: Int32
    /// The number of the attempt, as in `attempt_count`.
    ///
    /// If the request does not count as an attempt, this is the number of the previous attempt.
    public let number: Int16
    /// When the request was sent; nil if the process ended before it recorded this time.
    ///
    /// If this time is nil, use the time at which the mutation was marked as in flight.
    public let sentAt: Timestamp?
    /// The duration of the request; nil if the process ended before the measurement.
    public let milliseconds: Int32?
    /// The HTTP status of the answer; nil if there was no answer.
    public let status: Int16?
    /// The reason why there was no answer; nil if there was an answer.
    public let error: String?
    /// The place of the outcome rule that decided about the answer, such as `/outcomes/0`; nil if no rule did.
    @Exact public private(set) var rule: String?

    /// The beginning of a stored reason that names a rule.
    private static let ruleMark = "decided by "

    /// The stored form of ``error`` and ``rule``, of which at most one is not nil.
    public var reason: String? { rule.map { Self.ruleMark + $0 } ?? error }

    /// Creates a record from its stored values.
    ///
    /// - Parameter reason: the stored form of ``error`` and ``rule``.
    public init(
        result: Result,
        revision: Int32,
        number: Int16,
        sentAt: Timestamp?,
        milliseconds: Int32?,
        status: Int16?,
        reason: String?
    ) {
        self.result = result
        self.revision = revision
        self.number = number
        self.sentAt = sentAt
        self.milliseconds = milliseconds
        self.status = status
        // a rule decides only about an answer, and an error is stored only if there was no answer
        let isRule = status != nil && reason?.hasPrefix(Self.ruleMark) == true
        error = isRule ? nil : reason
        rule = isRule ? reason.map { String($0.dropFirst(Self.ruleMark.count)) } : nil
    }

    /// The record of a request; nil if there is nothing to record.
    ///
    /// Two kinds of requests are not recorded: a request that was never sent, and a success at the first attempt that
    /// no outcome rule decided. The mutation's row shows such a success.
    ///
    /// - Parameter outcome: the outcome of the request.
    public init?(
        of outcome: Outcome,
        to dispatch: Dispatch,
        _ answer: UpstreamAnswer,
        sentAt: Timestamp,
        took elapsed: Duration
    ) {
        let status: Int16?
        let reason: String?
        switch answer {
        case .response(let response):
            (status, reason) = (Int16(response.status), outcome.rule.map { Self.ruleMark + $0 })
        case .notSent(let why): (status, reason) = (nil, "not reached: \(why)")
        case .unknown(let why): (status, reason) = (nil, "no response: \(why)")
        case .refused, .unready: return nil
        }
        let mutation = dispatch.mutation
        let isUnknown = if case .unknown = answer { true } else { false }
        if outcome.status == .succeeded, mutation.isUntried, outcome.rule == nil { return nil }
        self.init(
            result: Result(of: outcome, isUnknown: isUnknown),
            revision: mutation.revision,
            number: outcome.kind == .misconfigured ? mutation.attemptCount : dispatch.attempts,
            sentAt: sentAt,
            milliseconds: Int32(clamping: elapsed.nanoseconds / 1_000_000),
            status: status,
            reason: reason.map { String($0.prefix(Self.errorLength)) }
        )
    }

    /// Creates the record of a request if the worker was lost before the answer arrived.
    init(ofLost mutation: QueuedMutation, isExhausted: Bool) {
        self.init(
            result: isExhausted ? .failed : .unknown,
            revision: mutation.revision,
            number: mutation.attemptCount,
            sentAt: nil,
            milliseconds: nil,
            status: nil,
            reason: "the worker that sent the request stopped before a response arrived"
        )
    }
}

extension AttemptRecord.Result {
    /// - Parameter isUnknown: whether this request may have taken effect although no answer arrived. The outcome does
    ///   not show this, because the outcome also covers earlier requests.
    fileprivate init(of outcome: Outcome, isUnknown: Bool) {
        self =
            switch (outcome.kind, outcome.status) {
            case (.misconfigured, _): .held
            case (.conflict, _), (.overridden, _), (.discarded, _): .conflict
            case (_, .succeeded): .succeeded
            case (_, .failed): .failed
            default: isUnknown ? .unknown : .retry
            }
    }
}

extension QueuedMutation {
    /// Whether no earlier request was sent for the mutation.
    fileprivate var isUntried: Bool { attemptCount == 0 && revision == 1 && hold == nil && !isOutcomeUnknown }
}

/// The reason why a mutation waits for a person. Operators' lists group mutations by this key.
///
/// The key is stored separately from the problem, because the problem may be sealed.
public struct FailureClass: Sendable, Hashable {
    /// The code of the problem. The code is `conflict` if the mutation's status is `conflict`, and only then.
    @Exact public private(set) var code: String
    /// The HTTP status of the response that caused the failure or the conflict; 0 if there was no response.
    public let status: Int16

    /// Creates the class of a mutation; nil if the mutation does not wait for a person.
    ///
    /// - Parameters:
    ///   - error: the problem as JSON.
    ///   - responseStatus: the status of the last response; nil if there was no response.
    public init?(of status: MutationStatus, error: [UInt8]?, responseStatus: Int16?) {
        guard status.isForAPerson else { return nil }
        let conflict = ProblemCode.conflict.rawValue
        let known = error.flatMap { StoredProblem($0).code }
        let other = known == conflict ? nil : known
        code = status == .conflict ? conflict : other ?? ProblemCode.upstreamRejected.rawValue
        self.status = responseStatus ?? 0
    }
}
