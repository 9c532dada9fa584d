public import Foundation

/// The next action of a lane's worker.
public enum LaneAction: Sendable {
    /// Run this mutation, which is committed as in flight.
    case run(Dispatch)
    /// Make another step at once.
    case proceed(token: Int64, unblocking: [UUID])
    /// Nothing: the lane was given back. A worker may claim it again at that time; nil: after the next push, or after a
    /// person settles a mutation.
    case released(readyAt: Timestamp?)
    /// Nothing: another worker holds the lane, or it was not ready.
    ///
    /// An outcome that was to be written is discarded.
    case lost
}
