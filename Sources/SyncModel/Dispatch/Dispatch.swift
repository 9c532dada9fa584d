/// A mutation whose turn it is. It is committed as in flight under the lane's lease before anybody sees this.
///
/// A class, for it is passed around a lot and never changes.
public final class Dispatch: Sendable {
    /// Whose it is.
    public let lane: LaneKey
    /// The lease that its outcome has to be written under.
    public let token: Int64
    /// When that lease ends, unless it is renewed.
    public let leasedUntil: Timestamp
    /// What runs; `attemptCount` does not count the request that is to be sent.
    public let mutation: QueuedMutation
    /// The type of its entity.
    public let type: EntityType
    /// The entity's permanent id, unless this creates it.
    public let serverID: ServerID?
    /// The entity's version in the feed when the turn came, where the user may know of it.
    public let entityVersion: Int64?
    /// The tenant as it was when the turn came.
    public let organization: Organization
    /// Where it goes.
    public let destination: Destination

    /// What takes a mutation.
    public enum Destination: Sendable {
        /// The built-in store, within the transaction that writes the outcome; the payload has server ids in place.
        case builtIn(payload: [UInt8])
        /// The organization's API.
        case upstream(UpstreamRequest, UpstreamSettings)
    }

    /// What the surroundings of the turn say, and where it goes.
    init(
        of mutation: QueuedMutation,
        _ surroundings: TurnPlanner.Surroundings,
        serverID: ServerID?,
        to destination: Destination
    ) {
        lane = surroundings.lane
        token = surroundings.token
        leasedUntil = surroundings.leasedUntil
        self.mutation = mutation
        type = surroundings.type
        self.serverID = serverID
        entityVersion = surroundings.visibleEntity?.version
        organization = surroundings.organization
        self.destination = destination
    }

    /// Requests sent once this one is: what a failure is counted as.
    public var attempts: Int16 { mutation.attemptCount + 1 }

    /// Whether a request that is sent now is over before the lease is. What the row said is some time ago: the process may
    /// have stood still since (product rule 13).
    public func canBeSent(at now: Timestamp) -> Bool {
        guard case .upstream(let request, _) = destination else { return true }
        return now.adding(seconds: request.timeout / .seconds(1)) < leasedUntil
    }

    /// The writer, for runs of versions.
    public var writer: Writer { Writer(user: lane.user, device: mutation.deviceID) }
}
