/// A mutation whose turn it is.
///
/// Its row is committed as in flight under the lane's lease before a dispatch is returned.
///
/// A class, since it is passed around a lot and never changes.
public final class Dispatch: Sendable {
    public let lane: LaneKey
    /// The lease under which its outcome must be written.
    public let token: Int64
    /// When that lease expires, unless the worker renews it.
    public let leasedUntil: Timestamp
    /// The mutation to run.
    ///
    /// Its `attemptCount` does not count the request about to be sent.
    public let mutation: QueuedMutation
    public let type: EntityType
    /// The entity's permanent id; nil for a create without one.
    public let serverID: ServerID?
    /// The entity's version in the feed when the turn came.
    ///
    /// Nil where the user may not know of the entity.
    public let entityVersion: Int64?
    /// The tenant as it was when the turn came.
    public let organization: Organization
    public let destination: Destination

    public enum Destination: Sendable {
        /// The built-in store, within the transaction that writes the outcome.
        ///
        /// The payload has server ids already.
        case builtIn(payload: [UInt8])
        /// The organization's API.
        case upstream(UpstreamRequest, UpstreamSettings)
    }

    init(
        of mutation: QueuedMutation,
        _ surroundings: DispatchPlanner.LaneContext,
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

    /// Requests sent once this one is: the count that a failure records.
    public var attempts: Int16 { mutation.attemptCount + 1 }

    /// Whether a request sent at that time ends before the lease does.
    ///
    /// The row was read earlier, and the process may have been suspended since (product rule 13).
    public func canBeSent(at now: Timestamp) -> Bool {
        guard case .upstream(let request, _) = destination else { return true }
        return now.adding(seconds: request.timeout / .seconds(1)) < leasedUntil
    }

    /// The writer, for runs of versions.
    public var writer: Writer { Writer(user: lane.user, device: mutation.deviceID) }
}
