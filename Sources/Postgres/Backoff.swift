/// Waiting times that double up to a bound, with jitter.
///
/// The jitter prevents many callers who failed together from returning together.
struct Backoff: Sendable {
    let first: Duration
    let longest: Duration

    /// The wait after this many consecutive failures (at least 1).
    ///
    /// Between half and all of the doubled time, by `jitter` between 0 and 1.
    func delay(afterFailures failures: Int, jitter: Double) -> Duration {
        let doublings = min(max(failures - 1, 0), 16)
        let full = min(longest, first * (1 << doublings))
        return full * (0.5 + 0.5 * jitter)
    }
}
