extension IntakeLimits {
    /// The largest body that settles one mutation: a payload, and room for the rest.
    public var settlingBytes: Int { payloadBytes + 16_384 }
}
