/// Where a mutation stands (seed 001, `status`). `rejected` is an answer and never a stored mutation: what is kept of
/// a rejected entry is a record of the refusal.
public enum MutationStatus: String, Sendable, Hashable, CaseIterable {
    /// Accepted; runs when its turn comes.
    case pending
    /// Waits for another mutation.
    case blocked
    /// Being sent.
    case inFlight = "in_flight"
    /// Took effect. Final.
    case succeeded
    /// Another writer was there first; a strategy or a person settles it.
    case conflict
    /// Refused for good, or out of attempts; a person retries or discards it.
    case failed
    /// Given up, by a person or by `server_wins`. Final.
    case discarded
    /// Not accepted.
    case rejected

    /// Final: nothing can change it any more. Exactly these have `synced_at`; a CHECK on `mutations` says so too.
    public var isFinal: Bool { self == .succeeded || self == .discarded }

    /// Settled: what a `wait` waits for, apart from a mutation that is blocked by a settled one.
    public var isSettled: Bool {
        switch self {
        case .succeeded, .discarded, .failed, .conflict, .rejected: true
        case .pending, .blocked, .inFlight: false
        }
    }

    /// What only a person moves, or retention after a long time: in the order in which it is named.
    public static let forAPerson: [MutationStatus] = [.failed, .conflict]

    /// Whether the lane will come to it by itself, without a person or another mutation moving first.
    public var isQueued: Bool { self == .pending || self == .inFlight }

    /// Whether a mutation that depends on one of this status may run: it succeeded, or `server_wins` discarded it and so
    /// adopted the server's entity (product rule 3).
    func satisfiesDependants(settledBy resolution: ConflictResolution?) -> Bool {
        self == .succeeded || (self == .discarded && resolution == .serverWins)
    }

    /// Where a mutation stands once it is moved, or stays where it is. Everything that writes a status takes it from here,
    /// or, where a statement does, the statuses that it may move (`MutationStatus.reached(from:)` in SyncStore).
    ///
    /// - Returns: nil for a move that does not exist, which stops a debug build: the column refuses NULL, so nothing of
    ///   the transaction is written.
    public func moved(to next: MutationStatus) -> MutationStatus? {
        let isPossible = self == next || canBecome(next)
        assert(isPossible, "no mutation that is \(rawValue) becomes \(next.rawValue)")
        return isPossible ? next : nil
    }

    /// The moves that exist (seed 001, `status_transition_must_be_valid`): the table that ``moved(to:)`` goes by.
    public func canBecome(_ next: MutationStatus) -> Bool {
        switch (self, next) {
        case (.pending, .inFlight), (.pending, .blocked), (.pending, .discarded): true
        // the built-in store has no flight: it goes from pending straight to an outcome
        case (.pending, .succeeded), (.pending, .conflict), (.pending, .failed): true
        case (.blocked, .pending), (.blocked, .discarded), (.blocked, .failed): true
        case (.inFlight, .pending), (.inFlight, .succeeded), (.inFlight, .conflict), (.inFlight, .failed): true
        case (.inFlight, .discarded): true
        case (.conflict, .pending), (.conflict, .discarded), (.conflict, .succeeded): true
        case (.failed, .pending), (.failed, .discarded): true
        // a retry with other content may have to wait for what that content names
        case (.conflict, .blocked), (.failed, .blocked): true
        default: false
        }
    }
}
