/// What of a gateway's configuration bears on the upstreams that it takes.
package struct UpstreamRules: Sendable {
    /// Whether there is a key to sign `signed` credentials with.
    package var canSign: Bool
    /// How long a worker has a lane, in seconds: a request that takes longer would be sent twice.
    package var leaseSeconds: Int

    package init(canSign: Bool, leaseSeconds: Int) {
        self.canSign = canSign
        self.leaseSeconds = leaseSeconds
    }

    /// The longest timeout of a request, in seconds.
    var maximumTimeout: Int { max(1, min(90, leaseSeconds - 1)) }
}
