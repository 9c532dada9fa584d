import SyncModel

/// When an upstream that was not told of an erasure is told again.
package enum ErasureRetry {
    /// Seconds to the next attempt after so many in vain: a minute, doubled each time, up to an hour. There is no last one:
    /// the erasure is not done before the upstream has been told.
    package static func pause(after attempts: Int32) -> Double {
        min(3_600, 60 * Double(1 << min(max(attempts, 1) - 1, 10)))
    }

    /// Whether an upstream's answer says that the user is erased there, or never was there.
    package static func isDone(status: Int) -> Bool { (200..<300).contains(status) || status == 404 || status == 410 }
}
