public import Foundation

/// A worker's request for one step of a lane.
public struct LaneRequest: Sendable {
    public let lane: LaneKey
    public let step: LaneStep
    /// The worker process.
    public let worker: UUID
    /// Set while the upstream's circuit is open: nothing is sent before.
    public let heldUntil: Timestamp?
    /// Whether to give the lane back after this step.
    public let releases: Bool

    public init(lane: LaneKey, step: LaneStep, worker: UUID, heldUntil: Timestamp? = nil, releases: Bool = false) {
        self.lane = lane
        self.step = step
        self.worker = worker
        self.heldUntil = heldUntil
        self.releases = releases
    }
}
