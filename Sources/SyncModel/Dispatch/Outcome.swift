/// The result of a mutation's turn: everything that is written about it.
public struct Outcome: Sendable {
    public var status: MutationStatus
    /// Raised when the mutation is sent again under a new idempotency key.
    public var revision: Int32
    /// Requests that count as attempts.
    public var attemptCount: Int16
    /// When the next attempt is due; nil if it is due immediately, or never.
    public var nextRetryAt: Timestamp?
    /// The entity's permanent id; nil while it is not known.
    public var serverID: ServerID?
    /// Set when a strategy settled a conflict.
    public var resolution: ConflictResolution?
    /// The upstream's HTTP status, or the equivalent one for the built-in store.
    public var responseStatus: Int16?
    /// The upstream's JSON, of definitive answers.
    public var responseBody: [UInt8]?
    /// A problem object as JSON.
    public var error: [UInt8]?
    /// The error as a sentence.
    public var lastError: String?
    /// The upstream's HTTP status at the last failure.
    public var lastErrorCode: Int16?
    /// Whether the request may have taken effect without the gateway's knowing.
    public var isOutcomeUnknown = false
    /// Consecutive 409s that were taken for an echo of an earlier attempt.
    public var conflictRetries: Int16 = 0
    /// Set while the operator may be the cause of the upstream's answers.
    public var hold: AuthBackoff?
    /// The request that the next attempt sends instead, to override a conflict.
    public var override: SentRequest?
    /// The entity's ETag, from an answer about this entity.
    ///
    /// Nil for every outcome but a success.
    public var etag: String?
    /// The ETag that the request demanded of the entity, in If-Match.
    ///
    /// Nil if there was no condition, and for every outcome but a success.
    public var demandedETag: String?
    /// The change that enters the feed.
    public var entity: EntityChange = .none
    public var evidence: Evidence = .written
    /// The request, for the mutation's history; nil if it is not recorded.
    public var attempt: AttemptRecord?
    /// The room of the answer that the outcome was read from, held until the outcome is written.
    public var room: MemoryReservation?
    /// Whether the lane halts, also where the organization's settings let it continue.
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

    /// The ground for a change.
    ///
    /// Not every ground permits changing what other users have written.
    public enum Evidence: Sendable, Hashable {
        /// The upstream took a write of this entity.
        case written
        /// The upstream created an entity and returned this id.
        case created
        /// It showed the entity's state in a conflict that it won.
        case adopted
        /// It has no such entity: 404 or 410 to a delete.
        case missing
    }

    /// Classes of outcomes, for metrics and the circuit breaker.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case succeeded
        /// Settled by `server_wins`.
        case discarded
        case conflict
        /// To be sent again by `client_wins`.
        case overridden
        case rejected
        /// Retried later, as the upstream requests.
        ///
        /// The status was 408, 425, 429, or a 409 that may be an echo.
        case deferred
        /// Retried later: 5xx.
        case serverError = "server_error"
        /// Retried later: no answer, or no connection.
        case unreachable
        /// Retried later without spending an attempt: the operator may be the cause.
        ///
        /// 401, 407 or a redirect.
        case misconfigured
        /// Not sent: the gateway refuses it, or cannot send anything to that upstream.
        ///
        /// This contains no information about the upstream.
        case refused
        /// Given up because the gateway shut down, or its worker was lost.
        case abandoned
    }

    /// An outcome without details, and without a request sent.
    private init(_ status: MutationStatus, _ kind: Kind, of mutation: QueuedMutation) {
        self.status = status
        self.kind = kind
        revision = mutation.revision
        attemptCount = mutation.attemptCount
        resolution = mutation.resolution
        // a conflict that a strategy settled stays recorded
        error = mutation.error
    }

    /// An outcome without details.
    ///
    /// - Parameter isOpen: whether the mutation's situation is unchanged: its turn comes again, or its attempts are
    ///   used up.
    init(_ status: MutationStatus, _ kind: Kind, of dispatch: Dispatch, isOpen: Bool = false) {
        self.init(status, kind, of: dispatch.mutation)
        attemptCount = dispatch.attempts
        serverID = dispatch.serverID
        if isOpen { keep(dispatch.mutation) }
    }

    /// Copies the records of the revision's earlier attempts.
    private mutating func keep(_ mutation: QueuedMutation) {
        isOutcomeUnknown = mutation.isOutcomeUnknown
        override = mutation.override
        conflictRetries = mutation.conflictRetries
    }

    /// The outcome of a conflict that `client_wins` overrides.
    ///
    /// A new revision, which sends another request.
    ///
    /// - Parameter id: the entity that is overwritten; nil where it is not known.
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

    /// Whether the outcome counts as a try of a create's mapping (product rule 10).
    ///
    /// A problem that may be the operator's does not count, nor does a request that was not sent.
    public var isFailedTry: Bool {
        status == .pending && nextRetryAt != nil && kind != .misconfigured && kind != .refused
    }

    /// Whether a mutation that depends on this one may run (product rule 3).
    public var satisfiesDependants: Bool {
        status.satisfiesDependants(settledBy: resolution)
    }
}

extension Outcome {
    /// The outcome of a mutation whose worker was lost.
    ///
    /// It may have taken effect, and its turn comes again at once, unless its attempts are used up (product rule 13;
    /// specification 001 (docs/spec), `in_flight_lock_prevents_duplicate_dispatch`).
    ///
    /// - Parameter wasSent: whether it goes to an upstream; the built-in store has no effect without its outcome.
    public init(ofLost mutation: QueuedMutation, wasSent: Bool) {
        let isExhausted = wasSent && mutation.attemptCount >= mutation.maxAttempts
        self.init(isExhausted ? .failed : .pending, .abandoned, of: mutation)
        keep(mutation)
        hold = mutation.hold
        isOutcomeUnknown = wasSent || mutation.isOutcomeUnknown
        if let problem = Problem.unreadable(mutation) {
            // the row is written back without the parts that cannot be opened, so it must never be sent
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
    /// The reason why a mutation can never be sent as it is stored.
    ///
    /// Nil where every part of it can be opened.
    static func unreadable(_ mutation: QueuedMutation) -> Problem? {
        guard !mutation.unreadable.isEmpty else { return nil }
        let what = mutation.unreadable.joined(separator: ", ")
        return Problem(
            .validationFailed,
            "the stored content cannot be decrypted (\(what)): retry with another payload, or discard the mutation"
        )
    }
}
