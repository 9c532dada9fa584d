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
    /// Set while the upstream's answers may be the operator's trouble.
    public var hold: MutationHold?
    /// What the next attempt sends instead, to have its way.
    public var override: SentRequest?
    /// The entity's validator, of an answer that says it of this entity; nil of everything but a success.
    public var etag: String?
    /// What the feed learns.
    public var entity: EntityChange = .none
    /// On what ground it learns that.
    public var ground: Ground = .written
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

    /// How the feed comes to know of a change: what others have written is not changed on every ground.
    public enum Ground: Sendable, Hashable {
        /// The upstream took a write of this entity.
        case written
        /// It made an entity, and says that this is its id.
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
        /// Tried again later: the upstream said so (408, 425, 429, a 409 that may be an echo).
        case deferred
        /// Tried again later: 5xx.
        case serverError = "server_error"
        /// Tried again later: no answer, or no connection.
        case unreachable
        /// Tried again later, and no attempt is spent: 401, 407 or a redirect, as long as that may be the operator's trouble.
        case misconfigured
        /// Not sent: the gateway itself refuses it, or cannot send anything to that upstream. Says nothing of the upstream.
        case refused
        /// Given up when the gateway shut down, or its worker was lost.
        case abandoned
    }

    /// An outcome with nothing said yet, and no request sent.
    private init(_ status: MutationStatus, _ kind: Kind, of mutation: QueuedMutation) {
        self.status = status
        self.kind = kind
        revision = mutation.revision
        attemptCount = mutation.attemptCount
        resolution = mutation.resolution
        // what a strategy settled keeps the conflict beside it
        error = mutation.error
    }

    /// An outcome with nothing said yet.
    ///
    /// - Parameter isOpen: whether the mutation stands as before: its turn comes again, or its attempts are used up.
    init(_ status: MutationStatus, _ kind: Kind, of dispatch: Dispatch, isOpen: Bool = false) {
        self.init(status, kind, of: dispatch.mutation)
        attemptCount = dispatch.attempts
        serverID = dispatch.serverID
        if isOpen { keep(dispatch.mutation) }
    }

    /// Keeps what earlier attempts of the revision leave behind.
    private mutating func keep(_ mutation: QueuedMutation) {
        isOutcomeUnknown = mutation.isOutcomeUnknown
        override = mutation.override
        conflictRetries = mutation.conflictRetries
    }

    /// What becomes of a conflict in which the client has its way: a new revision, which sends something else.
    ///
    /// - Parameter id: the entity that is written over, as far as it is known.
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

    /// Whether it counts as a try of the mapping of a create (product rule 10): what may be the operator's trouble does
    /// not, nor what was not sent.
    public var isFailedTry: Bool {
        status == .pending && nextRetryAt != nil && kind != .misconfigured && kind != .refused
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
        self.init(isExhausted ? .failed : .pending, .abandoned, of: mutation)
        keep(mutation)
        hold = mutation.hold
        isOutcomeUnknown = wasSent || mutation.isOutcomeUnknown
        if let problem = Problem.unreadable(mutation) {
            // written back without what cannot be opened: never to be sent like that
            status = .failed
            if mutation.unreadable.contains("sent_payload") { override = nil }
            error = problem.json
            lastError = problem.detail
            return
        }
        guard wasSent else { return }
        lastError = "the worker that sent it was lost before it had an answer"
        if isExhausted {
            error = Problem.exhausted(mutation.attemptCount, "the outcome of the last one is unknown").json
        }
    }

    /// What becomes of a mutation whose turn had come, and that was not sent after all: its turn comes again.
    public init(ofUnsent dispatch: Dispatch) {
        self.init(ofLost: dispatch.mutation, wasSent: false)
    }

    /// What becomes of a mutation that was marked as in flight, but never sent: its turn comes again, and no attempt was
    /// spent.
    public init(ofUnsent mutation: QueuedMutation, isForwarded: Bool) {
        self.init(ofLost: mutation, wasSent: false)
        attemptCount = isForwarded ? max(0, mutation.attemptCount - 1) : mutation.attemptCount
    }
}

extension Problem {
    /// Why a mutation can never be sent as it is stored; nil where all of it can be opened.
    static func unreadable(_ mutation: QueuedMutation) -> Problem? {
        guard !mutation.unreadable.isEmpty else { return nil }
        let what = mutation.unreadable.joined(separator: ", ")
        return Problem(
            .validationFailed,
            "what is stored of it cannot be opened (\(what)): retry it with another payload, or discard it"
        )
    }
}
