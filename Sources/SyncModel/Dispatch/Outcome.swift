/// The result of a mutation's turn: everything that is stored about the turn.
public struct Outcome: Sendable {
    public var status: MutationStatus
    /// The revision, which increases when the mutation is sent again under a new idempotency key.
    public var revision: Int32
    /// Requests that count as attempts.
    public var attemptCount: Int16
    /// When the next attempt is due; nil if it is due immediately, or never.
    public var nextRetryAt: Timestamp?
    /// The entity's permanent id; nil while it is not known.
    public var serverID: ServerID?
    /// Set if a strategy settled a conflict.
    public var resolution: ConflictResolution?
    /// The upstream's HTTP status, or the equivalent status for the built-in store.
    public var responseStatus: Int16?
    /// The body of a definitive answer of the upstream, JSON.
    public var responseBody: [UInt8]?
    /// A problem object as JSON.
    public var error: [UInt8]?
    /// The error as a sentence.
    public var lastError: String?
    /// The upstream's HTTP status at the last failure.
    public var lastErrorCode: Int16?
    /// Whether the request may have taken effect although no answer arrived.
    public var isOutcomeUnknown = false
    /// Consecutive 409s that may be caused by an earlier attempt.
    public var conflictRetries: Int16 = 0
    /// Set while the operator's configuration may be the cause of the upstream's answers.
    public var hold: AuthBackoff?
    /// The request that the next attempt sends instead of the client's own, to override a conflict.
    public var override: SentRequest?
    /// The entity's ETag, from an answer about this entity; nil for every outcome other than a success.
    public var etag: String?
    /// The ETag in the request's If-Match.
    ///
    /// Nil if there was no condition, and for every outcome other than a success.
    public var demandedETag: String?
    /// The change that enters the feed.
    public var entity: EntityChange = .none
    public var evidence: Evidence = .written
    /// The request, for the mutation's history; nil if it is not recorded.
    public var attempt: AttemptRecord?
    /// The reserved memory of the answer from which the outcome was read. It is held until the outcome is written.
    public var room: MemoryReservation?
    /// The recorded span of the batch whose answer contained the mutation's answer.
    public var batchSpan: TraceContext?
    /// Whether the lane halts even if the organization's settings let it continue.
    public var haltsLane = false
    public var kind: Kind

    /// The outcome's change to the entity that other clients pull.
    public enum EntityChange: Sendable {
        case none
        /// The entity as the upstream has it.
        case document([UInt8], etag: String?)
        /// The patch took effect, and the upstream did not show the result.
        ///
        /// The patch is merged into the known document.
        case patch([UInt8], etag: String?)
        case deleted
    }

    /// The evidence for a change of the entity.
    ///
    /// Some kinds of evidence do not permit a change of a state that other users have written.
    public enum Evidence: Sendable, Hashable {
        /// The upstream accepted a write of this entity.
        case written
        /// The upstream created an entity and returned this id.
        case created
        /// The upstream showed the entity's state in a conflict that it won.
        case adopted
        /// The upstream has no such entity: it answered 404 or 410 to a delete.
        case missing
    }

    /// Classes of outcomes, for metrics and the circuit breaker.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case succeeded
        /// Settled by `server_wins`.
        case discarded
        case conflict
        /// The mutation overrides a conflict by `client_wins`, and is sent again.
        case overridden
        case rejected
        /// The upstream asked to retry later.
        ///
        /// The status was 408, 425, 429, or a 409 that an earlier attempt may have caused.
        case deferred
        /// Retried later, because the upstream answered 5xx.
        case serverError = "server_error"
        /// Retried later, because there was no connection or no answer.
        case unreachable
        /// Retried later without spending an attempt, because the operator's configuration may be the cause.
        ///
        /// The status was 401, 407 or a redirect.
        case misconfigured
        /// Not sent, because the gateway refuses it, or cannot send anything to that upstream.
        ///
        /// So the outcome contains no information about the upstream.
        case refused
        /// Ended without an outcome, because the gateway shut down or the worker was lost.
        case abandoned
    }

    /// Creates an outcome without details, for a mutation of which no request was sent.
    private init(_ status: MutationStatus, _ kind: Kind, of mutation: QueuedMutation) {
        self.status = status
        self.kind = kind
        revision = mutation.revision
        attemptCount = mutation.attemptCount
        resolution = mutation.resolution
        // the error of a conflict that a strategy settled is kept
        error = mutation.error
    }

    /// Creates an outcome without details.
    ///
    /// - Parameter isOpen: whether the mutation's content is unchanged, because its turn comes again or its attempts
    ///   are used up.
    init(_ status: MutationStatus, _ kind: Kind, of dispatch: Dispatch, isOpen: Bool = false) {
        self.init(status, kind, of: dispatch.mutation)
        attemptCount = dispatch.attempts
        serverID = dispatch.serverID
        if isOpen { keep(dispatch.mutation) }
    }

    /// Copies the data about the revision's earlier attempts.
    private mutating func keep(_ mutation: QueuedMutation) {
        isOutcomeUnknown = mutation.isOutcomeUnknown
        override = mutation.override
        conflictRetries = mutation.conflictRetries
    }

    /// The outcome of a conflict that `client_wins` overrides: a new revision, which sends another request.
    ///
    /// - Parameter id: the id of the entity that is overwritten; nil if it is not known.
    func overridden(by sent: SentRequest, of id: ServerID?) -> Outcome {
        var outcome = self
        outcome.status = .pending
        outcome.kind = .overridden
        outcome.resolution = .clientWins
        outcome.revision += 1
        outcome.attemptCount = 0
        outcome.isOutcomeUnknown = false
        outcome.serverID = id
        outcome.override = sent
        return outcome
    }

    /// Whether the outcome counts as a failed try to resolve a create's mapping (product rule 10).
    ///
    /// A request that was not sent does not count, nor does a problem that the operator's configuration may have
    /// caused.
    public var isFailedTry: Bool {
        status == .pending && nextRetryAt != nil && kind != .misconfigured && kind != .refused
    }

    /// Whether a mutation that depends on this mutation may run (product rule 3).
    public var satisfiesDependants: Bool {
        status.satisfiesDependants(settledBy: resolution)
    }
}

extension Outcome {
    /// The outcome of a mutation whose worker was lost.
    ///
    /// The mutation may have taken effect. Its turn comes again immediately, unless its attempts are used up (product
    /// rule 13; specification 001 (docs/spec), `in_flight_lock_prevents_duplicate_dispatch`).
    ///
    /// - Parameter wasSent: whether the mutation goes to an upstream. A mutation of the built-in store has no effect
    ///   without its outcome.
    public init(ofLost mutation: QueuedMutation, wasSent: Bool) {
        let isExhausted = wasSent && mutation.attemptCount >= mutation.maxAttempts
        self.init(isExhausted ? .failed : .pending, .abandoned, of: mutation)
        keep(mutation)
        hold = mutation.hold
        isOutcomeUnknown = wasSent || mutation.isOutcomeUnknown
        if let problem = Problem.unreadable(mutation) {
            // the row is written back without the parts that cannot be decrypted, so it must never be sent
            status = .failed
            if mutation.unreadable.contains("sent_payload") { override = nil }
            error = problem.json
            lastError = problem.detail
            return
        }
        guard wasSent else { return }
        attempt = AttemptRecord(ofLost: mutation, isExhausted: isExhausted)
        lastError = "the worker that sent it stopped before it received a response"
        if isExhausted {
            error = Problem.exhausted(mutation.attemptCount, "the outcome of the last attempt is unknown").json
        }
    }

    /// The outcome of a dispatched mutation that was not sent.
    ///
    /// Its turn comes again.
    public init(ofUnsent dispatch: Dispatch) {
        self.init(ofLost: dispatch.mutation, wasSent: false)
    }

    /// The outcome of a mutation that was marked as in flight but never sent.
    ///
    /// Its turn comes again, and no attempt is spent.
    public init(ofUnsent mutation: QueuedMutation, isForwarded: Bool) {
        self.init(ofLost: mutation, wasSent: false)
        attemptCount = isForwarded ? max(0, mutation.attemptCount - 1) : mutation.attemptCount
    }
}

extension Problem {
    /// The reason why a mutation cannot be sent as it is stored; nil if every part of it can be decrypted.
    static func unreadable(_ mutation: QueuedMutation) -> Problem? {
        guard !mutation.unreadable.isEmpty else { return nil }
        let what = mutation.unreadable.joined(separator: ", ")
        return Problem(
            .validationFailed,
            "the stored content cannot be decrypted (\(what)): retry with another payload, or discard the mutation"
        )
    }
}
