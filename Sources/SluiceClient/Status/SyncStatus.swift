public import Foundation

/// How synchronization stands: what an app shows in one place.
public struct SyncStatus: Sendable, Hashable {
    public enum Phase: Sendable, Hashable {
        /// ``SluiceClient/resume()`` has not been called, or ``SluiceClient/suspend()`` has.
        case suspended
        /// Nothing is to be done.
        case idle
        case pushing
        case pulling
        /// There is no connection. What is enqueued waits, and costs nothing.
        case offline
        /// The gateway asked to come again later, or could not be understood.
        case waiting
        /// It goes on once somebody has done something: ``SyncStatus/blockedBy``.
        case blocked
        /// Another process of the app group synchronizes this database.
        case elsewhere
    }

    /// What keeps writes from going on.
    public enum Blocker: Sendable, Hashable {
        /// The gateway does not take the app's token, or the app has none.
        case token(String)
        /// The token is another user's than the one whose writes are in this database.
        case otherAccount
        /// The gateway refuses this user, organization or device.
        case refused(Problem)
        /// The user's queue at the gateway stands still: `reason` as `docs/api.md` has it (`conflict`, `failure`,
        /// `circuit_open`, `back_off`, `no_upstream`, `blocked`), and the mutations that hold it.
        case queue(reason: String, mutations: [UUID])
    }

    public internal(set) var phase = Phase.suspended
    /// Writes of which nobody has to decide anything: queued, sent, or waiting for their turn at the gateway.
    public internal(set) var pending = 0
    /// Writes that did not take effect and are no conflicts: ``FailedWrite``.
    public internal(set) var failed = 0
    public internal(set) var conflicts = 0
    /// When the oldest of the pending writes was made.
    public internal(set) var oldestPending: Date?
    /// Rows that are kept out of the app's tables by a constraint or because a member does not fit: `HeldRow`.
    public internal(set) var held = 0
    public internal(set) var lastPulled: Date?
    public internal(set) var lastPushed: Date?
    /// While everything is pulled from the beginning: how many changes have come so far.
    public internal(set) var snapshotRows: Int?
    public internal(set) var blockedBy: Blocker?
    /// Why the last attempt came to nothing; nil once one has succeeded.
    public internal(set) var lastError: String?
    public internal(set) var nextAttempt: Date?
}
