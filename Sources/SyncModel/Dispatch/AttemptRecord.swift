/// A request that was sent for a mutation, for the mutation's history.
///
/// It contains no text that a user or an upstream wrote.
public struct AttemptRecord: Sendable, Hashable {
    /// The result of an attempt.
    public enum Result: String, Sendable, Hashable, CaseIterable {
        case succeeded
        /// The request is sent again.
        case retry
        /// The mutation has no attempts left, or was refused.
        case failed
        case conflict
        /// The request may have taken effect, but its response was not received.
        ///
        /// There was no response, or the process ended before the response arrived.
        case unknown
        /// The operator's configuration may be the cause. The request is sent again, and does not count as an attempt.
        case held
    }

    /// The maximum number of characters of a stored error.
    static let errorLength = 200

    public let result: Result
    /// The revision that was sent.
    public let revision: Int32
    /// The number of the attempt, as in `attempt_count`.
    ///
    /// A request that does not count as an attempt has the number of the attempt before it.
    public let number: Int16
    /// When the request was sent; nil if the process ended before recording it.
    ///
    /// If nil, the request was sent when the mutation was marked as in flight.
    public let sentAt: Timestamp?
    /// The duration; nil if the process ended before the measurement.
    public let milliseconds: Int32?
    /// The HTTP status of the answer; nil without an answer.
    public let status: Int16?
    /// The reason why there was no answer.
    public let error: String?

    /// An attempt as stored.
    public init(
        result: Result,
        revision: Int32,
        number: Int16,
        sentAt: Timestamp?,
        milliseconds: Int32?,
        status: Int16?,
        error: String?
    ) {
        self.result = result
        self.revision = revision
        self.number = number
        self.sentAt = sentAt
        self.milliseconds = milliseconds
        self.status = status
        self.error = error
    }

    /// The record of a request; nil if there is nothing to record.
    ///
    /// Two kinds of requests are not recorded: a success at the first attempt, which the mutation's row shows, and a
    /// request that was never sent.
    ///
    /// - Parameter outcome: the outcome that the answer gave.
    public init?(
        of outcome: Outcome,
        to dispatch: Dispatch,
        _ answer: UpstreamAnswer,
        sentAt: Timestamp,
        took elapsed: Duration
    ) {
        let status: Int16?
        let error: String?
        switch answer {
        case .response(let response): (status, error) = (Int16(response.status), nil)
        case .notSent(let reason): (status, error) = (nil, "not reached: \(reason)")
        case .unknown(let reason): (status, error) = (nil, "no response: \(reason)")
        case .refused, .unready: return nil
        }
        let mutation = dispatch.mutation
        let isUnknown = if case .unknown = answer { true } else { false }
        if outcome.status == .succeeded, mutation.isUntried { return nil }
        self.init(
            result: Result(of: outcome, isUnknown: isUnknown),
            revision: mutation.revision,
            number: outcome.kind == .misconfigured ? mutation.attemptCount : dispatch.attempts,
            sentAt: sentAt,
            milliseconds: Int32(clamping: elapsed.nanoseconds / 1_000_000),
            status: status,
            error: error.map { String($0.prefix(Self.errorLength)) }
        )
    }

    /// The record of a request whose worker was lost before the answer arrived.
    init(ofLost mutation: QueuedMutation, isExhausted: Bool) {
        self.init(
            result: isExhausted ? .failed : .unknown,
            revision: mutation.revision,
            number: mutation.attemptCount,
            sentAt: nil,
            milliseconds: nil,
            status: nil,
            error: "the worker that sent it stopped before it received a response"
        )
    }
}

extension AttemptRecord.Result {
    /// - Parameter isUnknown: whether this request may have taken effect although no answer arrived. The outcome cannot
    ///   show this, because it also covers earlier requests.
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

/// The reason why a mutation waits for a person, as a key for groups in operators' lists.
///
/// It is stored separately from the problem, because the problem may be sealed.
public struct FailureClass: Sendable, Hashable {
    /// The problem's code; `conflict` if and only if the mutation's status is `conflict`.
    @Exact public private(set) var code: String
    /// The HTTP status of the response that caused the failure or the conflict; 0 without a response.
    public let status: Int16

    /// The class of a mutation; nil if it does not wait for a person.
    ///
    /// - Parameters:
    ///   - error: the problem, JSON.
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
