import SyncModel

/// The schedule of retries after an upstream could not be notified of an erasure.
package enum ErasureRetry {
    /// Returns the seconds until the next attempt: 60 after the first failed attempt, doubled after each further one,
    /// and at most 3,600.
    ///
    /// The number of attempts is not limited, because an erasure is complete only when the upstream has accepted it.
    package static func pause(after attempts: Int32) -> Double {
        min(3_600, 60 * Double(1 << min(max(attempts, 1) - 1, 10)))
    }

    /// Whether a response means that the upstream has erased the user, or never had the user.
    package static func isDone(status: Int) -> Bool { (200..<300).contains(status) || status == 404 || status == 410 }
}
