package import SyncModel

/// When a poller sends its next request.
///
/// Each source has its own back-off: after failures it is polled less often, regardless of requests that are forwarded
/// to the same upstream.
package enum PollSchedule {
    /// The longest pause after failures, in seconds before jitter.
    package static let longestPause: Double = 900
    /// The pause after the first failure, if the interval is not shorter, in seconds.
    package static let firstPause: Double = 30

    /// - Parameters:
    ///   - failures: in a row, this one included.
    ///   - notBefore: the earliest time that the upstream accepts.
    ///   - jitter: 0 to 1; adds up to a fifth of the pause.
    package static func retry(
        _ settings: PollerSettings,
        after failures: Int,
        now: Timestamp,
        notBefore: Timestamp?,
        jitter: Double
    ) -> Timestamp {
        let first = min(firstPause, Double(settings.intervalSeconds))
        let doubled = first * Double(UInt64(1) << UInt64(min(max(failures - 1, 0), 40)))
        let due = now.adding(seconds: min(longestPause, doubled) * (1 + 0.2 * min(max(jitter, 0), 1)))
        return notBefore.map { max($0, due) } ?? due
    }
}
