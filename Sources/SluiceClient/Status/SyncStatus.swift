public import Foundation

/// How synchronization stands: what an app shows in one place.
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
        /// Everything of the user was erased at the gateway, for good, and so it has been from this database: the
        /// synchronized tables are empty, writes that waited are gone, and nothing is synchronized as this user any more.
        /// The app tells its user, and signs out.
        case erased(Problem)
        /// The gateway refuses this user, organization or device.
        case refused(Problem)
        /// The user's queue at the gateway stands still: `reason` as `docs/api.md` has it (`conflict`, `failure`,
        /// `circuit_open`, `back_off`, `no_upstream`, `blocked`), and the mutations that hold it.
        case queue(reason: String, mutations: [UUID])
    }

    /// What is being done now.
    public var phase = Phase.suspended
    /// Writes of which nobody has to decide anything: queued, sent, or waiting for their turn at the gateway.
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
    /// What keeps writes from going on; nil where nothing does.
    public var blockedBy: Blocker?
    /// Why the last attempt came to nothing; nil once one has succeeded.
    public var lastError: String?
    /// When it tries again by itself; nil while synchronization is suspended.
    public var nextAttempt: Date?

    /// As before anything has happened. A client tells its own by ``SluiceClient/status``; this is for previews and
    /// tests of an app's views.
    public init() {}
}
