/// The gateway's configuration that limits upstream settings.
package struct UpstreamRules: Sendable {
    /// Whether there is a key to sign `signed` credentials with.
    package var canSign: Bool
    /// How long a worker holds a lane, in seconds: a longer request would be sent twice.
    package var leaseSeconds: Int

    package init(canSign: Bool, leaseSeconds: Int) {
        self.canSign = canSign
        self.leaseSeconds = leaseSeconds
    }

    /// The longest timeout of a request, in seconds.
    var maximumTimeout: Int { max(1, min(90, leaseSeconds - 1)) }
}
