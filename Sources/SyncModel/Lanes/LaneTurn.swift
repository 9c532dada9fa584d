public import Foundation

/// What a lane's worker is to do next.
public enum LaneTurn: Sendable {
    /// Run this: it is committed as in flight.
    case run(Dispatch)
    /// Make another step at once.
    case goOn(token: Int64, unblocking: [UUID])
    /// Nothing: the lane was given back, and may be claimed again at that time; nil until something is pushed or a
    /// person settles something.
    case released(readyAt: Timestamp?)
    /// Nothing: the lane is somebody else's, or was not ready. An outcome that was to be written is thrown away.
    case lost
}
