/// The result of a mutation's turn: of an attempt, or of the decision not to send the mutation. The outcome contains
/// everything that is stored about the turn.
public struct Outcome: Sendable {
    public var status: MutationStatus
    /// The revision, which increases when the mutation is sent again under a new idempotency key.
    public var revision: Int32
    /// The number of requests that count as attempts.
    public var attemptCount: Int16
    /// When the next attempt is due; nil if it is due immediately, or never.
    public var nextRetryAt: Timestamp?
    /// The entity's permanent id; nil while it is not known.
    public var serverID: ServerID?
    /// The strategy that settled a conflict; nil if no strategy did.
    public var resolution: ConflictResolution?
    /// The HTTP status of the upstream's response or, for the built-in store, the equivalent status.
    public var responseStatus: Int16?
    /// The body of a definitive answer of the upstream, as JSON.
    public var responseBody: [UInt8]?
    /// A problem object as JSON.
    public var error: [UInt8]?
    /// The error as a sentence.
    public var lastError: String?
    /// The upstream's HTTP status at the last failure.
    public var lastErrorCode: Int16?
    /// Whether the request may have taken effect although no answer arrived.
    public var isOutcomeUnknown = false
    /// The number of consecutive 409s that may mean that the upstream still processes an earlier attempt.
    public var conflictRetries: Int16 = 0
    /// The state of a held mutation. Not nil while the operator's configuration may be the cause of the upstream's
    /// answers.
    public var hold: AuthBackoff?
    /// The request that the next attempt sends, instead of the client's own request, to override a conflict.
    public var override: SentRequest?
    /// The entity's ETag in the answer to a successful request; nil if the answer is not about this entity, or if the
    /// request was not successful.
    public var etag: String?
    /// The ETag in the request's If-Match.
    ///
    /// Nil if the request had no If-Match, or was not successful.
    public var demandedETag: String?
    /// The change that enters the feed.
    public var entity: EntityChange = .none
    public var evidence: Evidence = .written
    /// The place of the outcome rule that decided, such as `/outcomes/0`; nil if no rule did.
    public var rule: String?
    /// The request, for the mutation's history; nil if the request is not recorded.
    public var attempt: AttemptRecord?
    /// The reserved memory of the answer from which the outcome was read. The reservation lasts until the outcome is
    /// written.
    public var room: MemoryReservation?
    /// The recorded span of the batch in which the mutation was sent.
    public var batchSpan: TraceContext?
    /// Whether the lane halts even if the organization's settings let it continue.
    public var haltsLane = false
    public var kind: Kind

    /// The outcome's change of the entity, which other clients pull.
    public enum EntityChange: Sendable {
        case none
        /// The entity's new document, according to the upstream.
        case document([UInt8], etag: String?)
        /// The patch took effect, but the upstream's response did not contain the resulting document.
        ///
        /// The gateway merges the patch into the document in the feed.
        case patch([UInt8], etag: String?)
        case deleted
    }

    /// The evidence for a change of the entity.
    ///
    /// Some kinds of evidence do not permit the gateway to change a state that another user has written.
    public enum Evidence: Sendable, Hashable {
        /// The upstream accepted a write of this entity.
        case written
        /// The upstream created an entity and returned this id.
        case created
        /// The upstream returned the entity's state in a conflict that `server_wins` settled.
        case adopted
        /// The upstream does not have the entity, because it answered a delete with 404 or 410.
        case missing
    }

    /// Classes of outcomes, for metrics and the circuit breaker.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case succeeded
        /// The strategy `server_wins` settled a conflict.
        case discarded
        case conflict
        /// The mutation overrides a conflict by `client_wins`, and is sent again.
        case overridden
        case rejected
        /// The upstream asked to retry later.
        ///
        /// The status was 408, 425, 429, or a 409 that may mean that the upstream still processes an earlier attempt.
        case deferred
        /// The mutation is retried later, because the upstream answered with 5xx.
        case serverError = "server_error"
        /// The mutation is retried later, because there was no connection or no answer.
        case unreachable
        /// The mutation is retried later without spending an attempt, because the operator's configuration may be the
        /// cause.
        ///
        /// The status was 401, 407 or a redirect.
        case misconfigured
        /// The mutation is not sent, because the gateway refuses it, or cannot send anything to the upstream.
        ///
        /// Such an outcome contains no information about the upstream's state.
        case refused
        /// The request ended without an outcome, because the gateway shut down or the worker was lost.
        case abandoned
    }

    /// Creates an outcome without details for a mutation for which no request was sent.
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
    /// - Parameter isOpen: whether the mutation keeps the data about its attempts, because it runs again or its
    ///   attempts are used up.
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

    /// The outcome of a conflict that `client_wins` overrides. The outcome has a new revision, which sends another
    /// request.
    ///
    /// - Parameter id: the id of the entity to overwrite; nil if the id is not known.
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

    /// Whether the outcome is a failed try to resolve a create's mapping (product rule 10).
    ///
    /// False if no request was sent, or if the operator's configuration may be the cause of the failure.
    public var isFailedTry: Bool {
        status == .pending && nextRetryAt != nil && kind != .misconfigured && kind != .refused
    }

    /// Whether a mutation that depends on this mutation may run (product rule 3).
    public var satisfiesDependants: Bool {
        status.satisfiesDependants(settledBy: resolution)
    }
}

extension Outcome {
    /// Creates the outcome of a mutation in flight if its worker was lost.
    ///
    /// The mutation may have taken effect. If it has attempts left, it runs again immediately (product rule 13;
    /// specification 001 (docs/spec), `in_flight_lock_prevents_duplicate_dispatch`).
    ///
    /// - Parameter wasSent: whether the mutation is sent to an upstream. In the built-in store, a mutation takes effect
    ///   only in the transaction that writes its outcome.
    public init(ofLost mutation: QueuedMutation, wasSent: Bool) {
        let isExhausted = wasSent && mutation.attemptCount >= mutation.maxAttempts
        self.init(isExhausted ? .failed : .pending, .abandoned, of: mutation)
        keep(mutation)
        hold = mutation.hold
        isOutcomeUnknown = wasSent || mutation.isOutcomeUnknown
        if let problem = Problem.unreadable(mutation) {
            // a mutation with parts that cannot be decrypted must never be sent, because its row is written back
            // without these parts
            status = .failed
            if mutation.unreadable.contains("sent_payload") { override = nil }
            error = problem.json
            lastError = problem.detail
            return
        }
        guard wasSent else { return }
        attempt = AttemptRecord(ofLost: mutation, isExhausted: isExhausted)
        lastError = "the worker that sent the request stopped before a response arrived"
        if isExhausted {
            error = Problem.exhausted(mutation.attemptCount, "the outcome of the last attempt is unknown").json
        }
    }

    /// The outcome of a dispatched mutation that was not sent.
    ///
    /// The mutation runs again.
    public init(ofUnsent dispatch: Dispatch) {
        self.init(ofLost: dispatch.mutation, wasSent: false)
    }

    /// The outcome of a mutation that was marked as in flight but never sent.
    ///
    /// The mutation runs again, and no attempt is spent.
    public init(ofUnsent mutation: QueuedMutation, isForwarded: Bool) {
        self.init(ofLost: mutation, wasSent: false)
        attemptCount = isForwarded ? max(0, mutation.attemptCount - 1) : mutation.attemptCount
    }
}

extension Problem {
    /// The reason why a stored mutation cannot be sent; nil if all of its parts can be decrypted.
    static func unreadable(_ mutation: QueuedMutation) -> Problem? {
        guard !mutation.unreadable.isEmpty else { return nil }
        let what = mutation.unreadable.joined(separator: ", ")
        return Problem(
            .validationFailed,
            "the stored content cannot be decrypted (\(what)): retry with another payload, or discard the mutation"
        )
    }
}
