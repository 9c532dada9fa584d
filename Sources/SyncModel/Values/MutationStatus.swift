/// The status of a mutation (specification 001 (docs/spec), `status`).
///
/// The status `rejected` occurs only in answers, and never in a stored mutation. For a rejected entry, the gateway
/// stores a record of the refusal.
public enum MutationStatus: String, Sendable, Hashable, CaseIterable {
    /// The mutation is accepted, and runs when its turn comes.
    case pending
    /// The mutation waits for other mutations.
    case blocked
    /// The mutation is being sent.
    case inFlight = "in_flight"
    /// The mutation took effect. This status is final.
    case succeeded
    /// Another writer changed the entity first, or the mutation would break a relation.
    ///
    /// A strategy or a person settles the conflict.
    case conflict
    /// The mutation was refused permanently, or has no attempts left. A person retries or discards the mutation.
    case failed
    /// A person or `server_wins` discarded the mutation. This status is final.
    case discarded
    /// The entry of a push was not accepted.
    case rejected

    /// Whether the status is final, which means that it never changes.
    ///
    /// A mutation has `synced_at` if its status is final, and only then. A CHECK constraint on `mutations` enforces
    /// this as well.
    public var isFinal: Bool { self == .succeeded || self == .discarded }

    /// Whether the status is settled.
    ///
    /// A push with `wait` returns when each of its mutations is settled, or is blocked by a settled mutation.
    public var isSettled: Bool {
        switch self {
        case .succeeded, .discarded, .failed, .conflict, .rejected: true
        case .pending, .blocked, .inFlight: false
        }
    }

    /// The statuses that a mutation keeps until a person settles the mutation, or until retention discards it.
    ///
    /// Messages list the statuses in this order.
    public static let forAPerson: [MutationStatus] = [.failed, .conflict]

    /// Whether the status is in ``forAPerson``.
    public var isForAPerson: Bool { self == .failed || self == .conflict }

    /// Whether a mutation with this status is in the lane's queue.
    ///
    /// A mutation in the queue waits neither for a person nor for another mutation.
    public var isQueued: Bool { self == .pending || self == .inFlight }

    /// Whether a mutation that depends on a mutation with this status may run (product rule 3).
    ///
    /// The dependent mutation may run if the other mutation succeeded, or if `server_wins` discarded the other mutation
    /// and adopted the server's entity.
    func satisfiesDependants(settledBy resolution: ConflictResolution?) -> Bool {
        self == .succeeded || (self == .discarded && resolution == .serverWins)
    }

    /// Returns the status after a transition to another status, or to the same status.
    ///
    /// All code that writes a status uses this function. Statements use the list of statuses that allow the transition
    /// (`MutationStatus.reached(from:)` in SyncStore).
    ///
    /// - Returns: nil for an invalid transition. An invalid transition stops a debug build. In a release build, the
    ///   invalid transition makes the transaction fail, because the column refuses NULL.
    public func moved(to next: MutationStatus) -> MutationStatus? {
        let isPossible = self == next || canBecome(next)
        assert(isPossible, "no mutation that is \(rawValue) becomes \(next.rawValue)")
        return isPossible ? next : nil
    }

    /// Whether a transition is valid (specification 001 (docs/spec), `status_transition_must_be_valid`).
    public func canBecome(_ next: MutationStatus) -> Bool {
        switch (self, next) {
        case (.pending, .inFlight), (.pending, .blocked), (.pending, .discarded): true
        // in the built-in store, a mutation can change directly from pending to an outcome
        case (.pending, .succeeded), (.pending, .conflict), (.pending, .failed): true
        case (.blocked, .pending), (.blocked, .discarded), (.blocked, .failed): true
        case (.inFlight, .pending), (.inFlight, .succeeded), (.inFlight, .conflict), (.inFlight, .failed): true
        case (.inFlight, .discarded): true
        case (.conflict, .pending), (.conflict, .discarded), (.conflict, .succeeded): true
        case (.failed, .pending), (.failed, .discarded): true
        // a retry with other content may have to wait for the entities whose client ids it contains
        case (.conflict, .blocked), (.failed, .blocked): true
        default: false
        }
    }
}

/// The effect of a mutation on its entity (specification 001 (docs/spec), `operation`).
public enum Operation: String, Sendable, Hashable, CaseIterable {
    case create
    case update
    case replace
    case delete

    /// Reads the name of an operation, or its HTTP verb.
    ///
    /// Specification 001 (docs/spec), `operation_must_be_valid_verb`.
    public init?(wire text: String) {
        switch text {
        case "create", "POST": self = .create
        case "update", "PATCH": self = .update
        case "replace", "PUT": self = .replace
        case "delete", "DELETE": self = .delete
        default: return nil
        }
    }

    /// The HTTP method of the replay.
    public var method: String {
        switch self {
        case .create: "POST"
        case .update: "PATCH"
        case .replace: "PUT"
        case .delete: "DELETE"
        }
    }
}
