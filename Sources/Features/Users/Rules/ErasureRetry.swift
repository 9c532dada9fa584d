import SyncModel

/// When the notification of an upstream about an erasure is retried.
package enum ErasureRetry {
    /// Seconds to the next attempt after this many failed ones: one minute, doubled each time, up to one hour. There is
    /// no last one: the erasure is not done before the upstream has accepted the notification.
    package static func pause(after attempts: Int32) -> Double {
        min(3_600, 60 * Double(1 << min(max(attempts, 1) - 1, 10)))
    }

    /// Whether an upstream's response means that the user is erased there, or never existed there.
    package static func isDone(status: Int) -> Bool { (200..<300).contains(status) || status == 404 || status == 410 }
}
