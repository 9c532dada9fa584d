package import SyncModel

package struct DispatchConfiguration: Sendable {
    /// When failed attempts are tried again.
    package var policy = RetryPolicy()
    /// Lanes that work at the same time on this replica, over all organizations. 1 or more.
    package var maximumLanes = 1_024
    /// Lanes that run at the same time, with those that await their upstream's answer; nil for the default.
    package var maximumRequests: Int?
    /// How often the database is searched for due lanes, in seconds, before jitter.
    package var pollInterval: Double = 1
    /// Mutations after which a lane gives its place to waiting lanes of its organization.
    package var burst = 64
    /// How long a lane runs before it gives its place to waiting ones, after its current mutation.
    package var turn: Duration = .seconds(5)
    /// How long requests in progress may take once the gateway shuts down, in seconds.
    package var grace: Double = 7
    /// The clock of leases and back-offs.
    package var now: TimeSource

    package init(now: @escaping TimeSource) {
        self.now = now
    }

    /// The default of ``maximumRequests``.
    package static func maximumRequests(lanes: Int) -> Int { HostPlaces<LaneKey>.Limits.requests(places: lanes) }
}
