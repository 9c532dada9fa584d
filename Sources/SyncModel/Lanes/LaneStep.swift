public import Foundation

/// One step of a lane's worker: what it writes before it continues.
public enum LaneStep: Sendable {
    /// Take the lane, if it is ready and no other worker holds it.
    case claim
    /// Write the outcome of a request to the upstream.
    case settle(Dispatch, Outcome)
    /// Apply a mutation to the built-in store.
    case apply(Dispatch)
    /// Continue under a lease; first release more mutations that wait for these.
    case proceed(token: Int64, unblocking: [UUID])

    /// The lease under which the step is made; nil for a claim.
    public var token: Int64? {
        switch self {
        case .claim: nil
        case .settle(let dispatch, _), .apply(let dispatch): dispatch.token
        case .proceed(let token, _): token
        }
    }

    /// The mutation in flight when the step is made.
    var dispatch: Dispatch? {
        switch self {
        case .settle(let dispatch, _), .apply(let dispatch): dispatch
        case .claim, .proceed: nil
        }
    }

    /// The entity that the step may change; nil if it does not exist yet.
    public var entityKey: EntityKey? {
        switch self {
        case .claim, .proceed: nil
        case .settle(let dispatch, let outcome): outcome.entityKey(of: dispatch)
        case .apply(let dispatch): dispatch.serverID.map { EntityKey(type: dispatch.type.name, id: $0.text) }
        }
    }
}
