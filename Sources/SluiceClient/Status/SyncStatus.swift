public import Foundation

/// The state of synchronization, for one place of an app.
public struct SyncStatus: Sendable, Hashable {
    /// What is being done.
    public enum Phase: Sendable, Hashable {
        /// ``SluiceClient/resume()`` has not been called, or ``SluiceClient/suspend()`` has.
        case suspended
        /// Nothing is to be done.
        case idle
        /// Writes are on their way to the gateway.
        case pushing
        /// Changes are on their way to the phone.
        case pulling
        /// There is no connection. What is enqueued waits, and costs nothing.
        case offline
        /// The gateway asked to come again later, or could not be understood.
        case waiting
        /// It continues after an action: ``SyncStatus/blockedBy``.
        case blocked
        /// Another process of the app group synchronizes this database.
        case elsewhere
    }

    /// The reason why writes do not continue.
    public enum Blocker: Sendable, Hashable {
        /// The gateway does not accept the app's token, or the app has no token.
        case token(String)
        /// The token is another user's than the one whose writes are in this database.
        case otherAccount
        /// The user has signed out: this client writes and synchronizes nothing any more.
        case signedOut
        /// All data of the user were erased at the gateway, permanently, and so they were from this database: the
        /// synchronized tables are empty, and waiting writes are deleted. Nothing is synchronized as this user any
        /// more. The app informs its user, and signs out.
        case erased(Problem)
        /// The gateway refuses this user, organization or device.
        case refused(Problem)
        /// The user's queue at the gateway is stopped.
        ///
        /// `reason` is `conflict` or `failure` if a person has to settle one of `mutations`. The gateway waits for an API
        /// with `circuit_open`, `back_off` and `no_upstream`, and for another write with `blocked`.
        case queue(reason: String, mutations: [UUID])

        /// What is blocked.
        public enum Scope: Sendable, Hashable {
            /// This device synchronizes nothing.
            case device
            /// Writes of all devices of the user wait at the gateway; pulls continue.
            case user
        }

        /// What is blocked.
        public var scope: Scope { if case .queue = self { .user } else { .device } }
    }

    /// What is being done now.
    public var phase = Phase.suspended
    /// Writes that require no decision: queued, sent, or waiting for their turn at the gateway.
    public var pending = 0
    /// Writes that did not take effect and are no conflicts: ``FailedWrite``.
    public var failed = 0
    /// Writes that met another writer's: ``FailedWrite/Reason/conflict``.
    public var conflicts = 0
    /// When the oldest of the pending writes was made, by the phone's clock.
    public var oldestPending: Date?
    /// Rows that are kept out of the app's tables by a constraint or because a member does not fit: ``HeldRow``.
    public var held = 0
    /// When a page of changes was last applied, by the phone's clock; nil before the first one.
    public var lastPulled: Date?
    /// When the gateway last answered for writes, by the phone's clock; nil before the first ones.
    public var lastPushed: Date?
    /// While everything is pulled from the beginning: how many changes have come so far. Nil at all other times.
    public var snapshotRows: Int?
    /// The reason why writes do not continue; nil if they continue.
    public var blockedBy: Blocker?
    /// Why the last attempt came to nothing; nil once one has succeeded.
    public var lastError: String?
    /// When it tries again by itself; nil while synchronization is suspended.
    public var nextAttempt: Date?

    /// Whether the phone and the gateway have the same: no write is pending or needs a decision, no pull from the
    /// beginning is in progress, and every row that was pulled is in its table.
    public var isComplete: Bool { pending + failed + conflicts + held == 0 && snapshotRows == nil }

    /// Whether the user's queue at the gateway is stopped.
    var isQueueHeld: Bool { if case .queue = blockedBy { true } else { false } }

    /// Creates the initial status, for previews and tests of an app's views.
    ///
    /// A client's status is ``SluiceClient/status``.
    public init() {}
}
