/// What came of a mutation's turn: everything that is written about it.
public struct Outcome: Sendable {
    /// Where it stands now.
    public var status: MutationStatus
    /// Raised when it is sent again under a new key.
    public var revision: Int32
    /// Requests that count.
    public var attemptCount: Int16
    /// When the next try is due; nil for at once, or never.
    public var nextRetryAt: Timestamp?
    /// The entity's permanent id, when it is known.
    public var serverID: ServerID?
    /// Set when a strategy settled a conflict.
    public var resolution: ConflictResolution?
    /// The upstream's HTTP status, or what it would be.
    public var responseStatus: Int16?
    /// The upstream's JSON, of definitive answers.
    public var responseBody: [UInt8]?
    /// Problem object as JSON.
    public var error: [UInt8]?
    /// The error in words.
    public var lastError: String?
    /// The upstream's status of the last failure.
    public var lastErrorCode: Int16?
    /// Whether the request may have taken effect without our knowing.
    public var isOutcomeUnknown = false
    /// 409s in a row that were taken for an echo.
    public var conflictRetries: Int16 = 0
    /// What the next attempt sends instead, to have its way.
    public var override: SentRequest?
    /// What the feed learns.
    public var entity: EntityChange = .none
    /// What is counted.
    public var kind: Kind

    /// What an outcome does to the entity that others pull.
    public enum EntityChange: Sendable {
        case none
        /// The entity as the upstream has it.
        case document([UInt8], etag: String?)
        /// The patch took effect, and the upstream did not show the result: merged into what is known of the entity.
        case patch([UInt8], etag: String?)
        case deleted
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
        /// Tried again later: the upstream said so (408, 425, 429, a 409 that may be an echo).
        case deferred
        /// Tried again later: 5xx.
        case serverError = "server_error"
        /// Tried again later: no answer, or no connection.
        case unreachable
        /// 401, 407 or a redirect: the operator's trouble.
        case misconfigured
        /// Given up when the gateway shut down, or its worker was lost.
        case abandoned
    }

    /// An outcome with nothing said yet.
    init(_ status: MutationStatus, _ kind: Kind, of dispatch: Dispatch) {
        self.status = status
        self.kind = kind
        revision = dispatch.mutation.revision
        attemptCount = dispatch.attempts
        serverID = dispatch.serverID
        resolution = dispatch.mutation.resolution
        // what a strategy settled keeps the conflict beside it
        error = dispatch.mutation.error
    }

    /// Whether a mutation that depends on this one may run now (product rule 3).
    public var satisfiesDependants: Bool {
        status.satisfiesDependants(settledBy: resolution)
    }
}

extension Outcome {
    /// What becomes of a mutation whose worker was lost: it may have taken effect, and its turn comes again at once,
    /// unless it is out of attempts (product rule 13; seed 001, `in_flight_lock_prevents_duplicate_dispatch`).
    ///
    /// - Parameter wasSent: whether it goes to an upstream; the built-in store has no effect without its outcome.
    public init(ofLost mutation: QueuedMutation, wasSent: Bool) {
        let isExhausted = wasSent && mutation.attemptCount >= mutation.maxAttempts
        status = isExhausted ? .failed : .pending
        kind = .abandoned
        revision = mutation.revision
        attemptCount = mutation.attemptCount
        resolution = mutation.resolution
        error = mutation.error
        override = mutation.override
        conflictRetries = mutation.conflictRetries
        isOutcomeUnknown = wasSent || mutation.isOutcomeUnknown
        guard wasSent else { return }
        lastError = "the worker that sent it was lost before it had an answer"
        if isExhausted {
            error = Problem.exhausted(mutation.attemptCount, "the outcome of the last one is unknown").json
        }
    }

    /// What becomes of a mutation that was marked as in flight, but never sent: its turn comes again, and no attempt was
    /// spent.
    public init(ofUnsent mutation: QueuedMutation, isForwarded: Bool) {
        self.init(ofLost: mutation, wasSent: false)
        attemptCount = isForwarded ? max(0, mutation.attemptCount - 1) : mutation.attemptCount
    }
}
