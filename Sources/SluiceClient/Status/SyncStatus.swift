public import Foundation

/// The state of synchronization, to show in one place of an app.
public struct SyncStatus: Sendable, Hashable {
    /// The present phase.
    public enum Phase: Sendable, Hashable {
        /// ``SluiceClient/resume()`` has not been called, or ``SluiceClient/suspend()`` was called after it.
        case suspended
        /// There is nothing to do.
        case idle
        /// Writes are being sent to the gateway.
        case pushing
        /// Changes are being sent to the phone.
        case pulling
        /// There is no connection. Enqueued writes wait, and are not lost.
        case offline
        /// The gateway asked for a later attempt, or its response was not understood.
        case waiting
        /// Synchronization needs an action to continue. ``SyncStatus/blockedBy`` has the reason.
        case blocked
        /// Another process of the app group synchronizes this database.
        case elsewhere
    }

    /// The reason why writes do not continue.
    public enum Blocker: Sendable, Hashable {
        /// The gateway does not accept the app's token, or the app has no token.
        case token(String)
        /// The token belongs to another user than the writes in this database.
        case otherAccount
        /// The user has signed out: this client no longer writes or synchronizes anything.
        case signedOut
        /// All data of the user were erased permanently at the gateway, and then in this database: the synchronized
        /// tables are empty, and waiting writes are deleted. Nothing more is synchronized for this user. Inform the
        /// user, and sign out.
        case erased(Problem)
        /// The gateway refuses this user, organization or device.
        case refused(Problem)
        /// The user's queue at the gateway is stopped.
        ///
        /// `reason` is `conflict` or `failure` if a person has to settle one of `mutations`. It is `circuit_open`,
        /// `back_off` or `no_upstream` if the gateway waits for an API, and `blocked` if a write waits for another one.
        case queue(reason: String, mutations: [UUID])

        /// Whether the reason affects this device or the user.
        public enum Scope: Sendable, Hashable {
            /// This device synchronizes nothing.
            case device
            /// Writes of all devices of the user wait at the gateway; pulls continue.
            case user
        }

        /// Whether the reason affects this device or the user.
        public var scope: Scope { if case .queue = self { .user } else { .device } }
    }

    /// The present phase.
    public var phase = Phase.suspended
    /// The number of writes that require no decision: queued, sent, or waiting for their turn at the gateway.
    public var pending = 0
    /// The number of writes that did not take effect and are not conflicts: ``FailedWrite``.
    public var failed = 0
    /// The number of writes in conflict with another writer's change: ``FailedWrite/Reason/conflict``.
    public var conflicts = 0
    /// The time when the oldest pending write was made, by the phone's clock.
    public var oldestPending: Date?
    /// The number of rows kept out of the app's tables by a constraint or because a member does not fit: ``HeldRow``.
    public var held = 0
    /// The time when a page of changes was last applied, by the phone's clock; nil before the first page.
    public var lastPulled: Date?
    /// The time of the gateway's last response about writes, by the phone's clock; nil before the first response.
    public var lastPushed: Date?
    /// The number of changes received so far while everything is pulled from the beginning; nil at all other times.
    public var snapshotRows: Int?
    /// The reason why writes do not continue; nil if they continue.
    public var blockedBy: Blocker?
    /// The reason why the last attempt failed; nil once an attempt has succeeded.
    public var lastError: String?
    /// The time of the next automatic attempt; nil while synchronization is suspended.
    public var nextAttempt: Date?

    /// Whether the phone and the gateway have the same data: no write is pending or needs a decision, no pull from the
    /// beginning is in progress, and every pulled row is in its table.
    public var isComplete: Bool { pending + failed + conflicts + held == 0 && snapshotRows == nil }

    /// Whether the user's queue at the gateway is stopped.
    var isQueueHeld: Bool { if case .queue = blockedBy { true } else { false } }

    /// Creates the initial status, for previews and tests of an app's views.
    ///
    /// A client's status is ``SluiceClient/status``.
    public init() {}
}
