public import Foundation

/// The state of synchronization as a whole, for display in one place of the app.
public struct SyncStatus: Sendable, Hashable {
    /// The present phase.
    public enum Phase: Sendable, Hashable {
        /// ``SluiceClient/resume()`` has not been called yet, or ``SluiceClient/suspend()`` was called afterwards.
        case suspended
        /// There is nothing to do.
        case idle
        /// Writes are being sent to the gateway.
        case pushing
        /// Changes are being sent to the phone.
        case pulling
        /// There is no connection. Enqueued writes wait, and are not lost.
        case offline
        /// The gateway requested a later attempt, or its response was not understood.
        case waiting
        /// Synchronization can only continue after an action. ``SyncStatus/blockedBy`` contains the reason.
        case blocked
        /// Another process of the app group is synchronizing this database.
        case elsewhere
    }

    /// The reason why writes do not continue.
    public enum Blocker: Sendable, Hashable {
        /// The gateway does not accept the app's token, or the app has no token.
        case token(String)
        /// The token and the writes in this database belong to different users.
        case otherAccount
        /// The user has signed out. This client no longer writes or synchronizes anything.
        case signedOut
        /// All data of the user were erased permanently at the gateway. The synchronized tables in this database were
        /// then emptied, and waiting writes were deleted. Nothing more is synchronized for this user. Inform the user,
        /// and sign out.
        case erased(Problem)
        /// The gateway refuses this user, organization or device.
        case refused(Problem)
        /// The user's queue at the gateway is stopped.
        ///
        /// `reason` is `conflict` or `failure` if a person has to settle one of `mutations`. It is `circuit_open`,
        /// `back_off` or `no_upstream` if the gateway waits for an upstream, and `blocked` if a write waits for another
        /// write.
        case queue(reason: String, mutations: [UUID])

        /// Whether the reason affects this device or the user.
        public enum Scope: Sendable, Hashable {
            /// This device synchronizes nothing.
            case device
            /// Writes of all the user's devices wait at the gateway. Pulls continue.
            case user
        }

        /// Whether a person has to settle one of the mutations that stop the queue.
        var needsDecision: Bool {
            if case .queue(let reason, _) = self { ["conflict", "failure"].contains(reason) } else { false }
        }

        /// Whether the reason affects this device or the user.
        public var scope: Scope { if case .queue = self { .user } else { .device } }
    }

    /// The present phase.
    public var phase = Phase.suspended {
        didSet {
            switch phase {
            case .idle: hasExchanged = true
            case .offline, .waiting, .blocked, .elsewhere: hasExchanged = false
            case .suspended, .pushing, .pulling: break
            }
        }
    }
    /// The number of unfinished writes that require no decision: writes that are queued, sent, or waiting for their
    /// turn at the gateway.
    public var pending = 0
    /// The number of failed writes that are not conflicts (``FailedWrite``). ``conflicts`` counts the conflicts,
    /// whereas ``SyncedRow/failed`` of a single row includes them.
    public var failed = 0
    /// The number of writes in conflict with another writer's change (``FailedWrite/Reason/conflict``).
    public var conflicts = 0
    /// The time when the oldest pending write was made, by the phone's clock.
    public var oldestPending: Date?
    /// The number of rows whose present state the app's tables do not accept, because of a constraint or because a
    /// member does not fit its column (``HeldRow``). ``heldDeletions`` are included.
    public var held = 0
    /// The number of held rows that were deleted, but that the app's tables still contain because other rows refer to
    /// them (``HeldRow/isDeletion``). The app shows these rows. All other held rows are missing or outdated.
    public var heldDeletions = 0
    /// The time when a page of changes was last applied, by the phone's clock; nil before the first page.
    public var lastPulled: Date?
    /// The time of the gateway's last response about writes, by the phone's clock; nil before the first response.
    public var lastPushed: Date?
    /// The number of changes that a pull from the beginning has received so far; nil at all other times.
    public var snapshotRows: Int?
    /// The reason why writes do not continue; nil if writes continue.
    public var blockedBy: Blocker?
    /// The reason why the last attempt failed; nil after a successful attempt.
    public var lastError: String?
    /// The time of the next automatic attempt; nil while synchronization is suspended.
    public var nextAttempt: Date?

    /// Whether the phone and the gateway had the same data at the end of the last exchange. All of the following
    /// conditions are true:
    ///
    /// - This client has pushed and pulled since its creation, and the last attempt succeeded. After
    ///   ``SluiceClient/syncOnce(deadline:)``, this means the attempt of that call. The condition is false if there was
    ///   no connection or no valid token, if the client was blocked for another reason, if the deadline ended the
    ///   attempt, or if another process was synchronizing.
    /// - No write is ``pending``.
    /// - No write needs a decision (``failed``, ``conflicts``).
    /// - No row is ``held``.
    /// - No pull from the beginning is in progress (``snapshotRows``).
    public var isComplete: Bool { hasExchanged && pending + failed + conflicts + held == 0 && snapshotRows == nil }

    /// Whether the last attempt has pushed and pulled everything.
    var hasExchanged = false

    /// Returns whether an app would show both values in the same way: they differ only in times, by less than a second.
    func looksLike(_ other: SyncStatus) -> Bool {
        var copy = self
        let times: [WritableKeyPath<SyncStatus, Date?>] = [\.oldestPending, \.lastPulled, \.lastPushed, \.nextAttempt]
        for time in times {
            if let own = self[keyPath: time], let others = other[keyPath: time], abs(own.timeIntervalSince(others)) < 1
            {
                copy[keyPath: time] = others
            }
        }
        if isComplete == other.isComplete { copy.hasExchanged = other.hasExchanged }
        return copy == other
    }

    /// Whether a person has decided about all writes that stop the user's queue.
    ///
    /// - Parameter decided: the writes about which the person has decided.
    func isSettled(by decided: Set<UUID>) -> Bool {
        guard let blockedBy, blockedBy.needsDecision, case .queue(_, let holding) = blockedBy else { return false }
        return !holding.isEmpty && decided.isSuperset(of: holding)
    }

    /// Whether the user's queue at the gateway is stopped.
    var isQueueHeld: Bool { if case .queue = blockedBy { true } else { false } }

    /// Creates the initial status, for previews and tests of an app's views.
    ///
    /// The status of a client is ``SluiceClient/status``.
    public init() {}
}
