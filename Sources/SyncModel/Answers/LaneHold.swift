public import Foundation

/// What keeps the head of a lane from running now.
public struct LaneHold: Sendable, Hashable {
    /// Why it does not run.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// An attempt failed, and the next is not due yet.
        case backOff = "back_off"
        /// The upstream failed too often.
        case circuitOpen = "circuit_open"
        /// Its type is forwarded, and there is nowhere to send it.
        case noUpstream = "no_upstream"
        /// It waits for other mutations.
        case blocked
        /// A conflict halts the lane until a person settles it.
        case conflict
        /// A failure halts the lane until a person settles it.
        case failure
    }

    /// Why it does not run.
    public var reason: Reason
    /// When the lane is looked at again, where that is known.
    public var until: Timestamp?
    /// The mutations that it waits for, or that halt the lane.
    public var mutationIDs: [UUID]

    public init(_ reason: Reason, until: Timestamp? = nil, mutationIDs: [UUID] = []) {
        self.reason = reason
        self.until = until
        self.mutationIDs = mutationIDs
    }

    /// What holds a lane; nil when its head runs, or is due.
    ///
    /// - Parameters:
    ///   - head: what halts the lane, else what runs next, else the first that is blocked.
    ///   - isForwarded: whether mutations of the head's type are replayed.
    ///   - hasUpstream: whether the organization has somewhere to replay them.
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
            // a worker has it; or had it, and the next who looks takes it over
            guard lane.leaseOwner == nil else { return nil }
            if let due = head.nextRetryAt, due > now {
                self.init(.backOff, until: due)
                return
            }
            let until = lane.readyAt.flatMap { $0 > now ? $0 : nil }
            if isForwarded, !hasUpstream {
                self.init(.noUpstream, until: until)
            } else if hasUpstream, until != nil {
                // all lanes of the organization are put off then, also those whose head needs no upstream
                self.init(.circuitOpen, until: until)
            } else {
                return nil
            }
        case .inFlight, .succeeded, .discarded, .rejected: return nil
        }
    }
}
