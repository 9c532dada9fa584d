/// The rest of a quota at a moment, for the caller.
public struct QuotaStatus: Sendable, Hashable {
    public let quota: Quota
    /// How many may come at once.
    public let left: Int64
    /// Seconds until the whole quota is available again, rounded up.
    public let seconds: Int64

    public init(quota: Quota, left: Int64, seconds: Int64) {
        self.quota = quota
        self.left = left
        self.seconds = seconds
    }
}
