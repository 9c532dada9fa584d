import SyncDispatch
import Tokens

/// A running gateway's health, in addition to the store's view of the database: for `/readyz`, and for the metric with
/// the same value.
struct GatewayHealth: Sendable {
    let serving: ServingState
    let dispatcher: Dispatcher
    let verifier: TokenVerifier
    /// Checks a database that was unavailable at the start.
    let database: DatabaseWatcher?

    /// Why requests cannot be served; empty if they can.
    ///
    /// No request can be served before a key was fetched. Withdrawn keys are no such reason: the gateway responds, and
    /// refuses all tokens.
    var reasons: [String] {
        let keys = verifier.keyReport
        return serving.reasons + dispatcher.reasons + (Self.isWaiting(keys) ? Self.missing(keys) : [])
            + (database?.reasons ?? [])
    }

    /// What an operator should know although requests can be served: where other issuers' tokens can be verified, an
    /// issuer without keys is no reason to stop.
    var notices: [String] {
        let keys = verifier.keyReport
        return (Self.isWaiting(keys) ? [] : Self.missing(keys)) + keys.empty.map { "\($0) contains no usable key" }
    }

    private static func isWaiting(_ keys: TokenVerifier.KeyReport) -> Bool { keys.isWithoutKeys && keys.empty.isEmpty }

    private static func missing(_ keys: TokenVerifier.KeyReport) -> [String] {
        keys.missing.map { "the keys of \($0) have not been fetched yet" }
    }
}
