public import Foundation

/// Why the head of a lane does not run.
public struct LaneBlocker: Sendable, Hashable {
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// An attempt failed, and the time of the next has not come.
        case backOff = "back_off"
        /// The lane was postponed, because nothing could be sent.
        ///
        /// The circuit breaker was open after repeated failures of the upstream, or nothing was allowed to be sent at
        /// the last poll of the lane.
        case circuitOpen = "circuit_open"
        /// The entity type is forwarded, and the organization has no upstream.
        case noUpstream = "no_upstream"
        /// The head waits for other mutations.
        case blocked
        /// A conflict halts the lane until a person settles it.
        case conflict
        /// A failure halts the lane until a person settles it.
        case failure
    }

    public var reason: Reason
    /// When a worker polls the lane again; nil where that is unknown.
    public var until: Timestamp?
    /// The mutations that the head waits for, or that halt the lane.
    public var mutationIDs: [UUID]

    public init(_ reason: Reason, until: Timestamp? = nil, mutationIDs: [UUID] = []) {
        self.reason = reason
        self.until = until
        self.mutationIDs = mutationIDs
    }

    /// Nil when the head runs or is due.
    ///
    /// - Parameters:
    ///   - head: the mutation that halts the lane, else the next to run, else the first blocked one.
    ///   - isForwarded: whether mutations of the head's type are replayed to an upstream.
    ///   - hasUpstream: whether the organization has one.
    public init?(
        of head: Backlog.Mutation,
        in lane: LaneState,
        isForwarded: Bool,
        hasUpstream: Bool,
        now: Timestamp
    ) {
        switch head.status {
        case .conflict: self.init(.conflict, mutationIDs: [head.id])
        case .failed: self.init(.failure, mutationIDs: [head.id])
        case .blocked: self.init(.blocked, mutationIDs: head.dependsOn)
        case .pending:
            // a worker holds the lease, or its lease has expired and the next worker takes the lane over
            guard lane.leaseOwner == nil else { return nil }
            if let due = head.nextRetryAt, due > now {
                self.init(.backOff, until: due)
                return
            }
            let until = lane.readyAt.flatMap { $0 > now ? $0 : nil }
            if isForwarded, !hasUpstream {
                self.init(.noUpstream, until: until)
            } else if hasUpstream, until != nil {
                // an open circuit postpones all lanes of the organization, also those whose head needs no upstream; so
                // does a poll that finds no upstream, or a suspended organization
                self.init(.circuitOpen, until: until)
            } else {
                return nil
            }
        case .inFlight, .succeeded, .discarded, .rejected: return nil
        }
    }
}
