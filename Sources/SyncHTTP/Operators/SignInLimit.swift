import SyncModel
import Synchronization

/// Counts wrong tokens at the sign-in, an address at a time: who guesses is slowed down, and nobody else.
final class SignInLimit: Sendable {
    /// Wrong tokens that an address may try within a window.
    static let tries = 10
    /// The window, in seconds.
    static let seconds: Int64 = 60
    /// Addresses that are remembered; beyond it all are forgotten that are the oldest.
    static let addresses = 1_024

    private struct Window {
        var began: Int64
        var wrong: Int
    }

    private let windows = Mutex([String: Window]())

    /// Seconds until the address may try again; nil where it may now.
    func wait(_ address: String, at now: Timestamp) -> Int64? {
        windows.withLock { windows in
            guard let window = windows[address], window.wrong >= Self.tries else { return nil }
            let left = window.began + Self.seconds - now.seconds
            return left > 0 ? left : nil
        }
    }

    func noteWrong(_ address: String, at now: Timestamp) {
        windows.withLock { windows in
            if var window = windows[address], now.seconds < window.began + Self.seconds {
                window.wrong += 1
                windows[address] = window
                return
            }
            if windows.count >= Self.addresses {
                windows = windows.filter { now.seconds < $0.value.began + Self.seconds }
            }
            if windows.count >= Self.addresses, let oldest = windows.min(by: { $0.value.began < $1.value.began }) {
                windows[oldest.key] = nil
            }
            windows[address] = Window(began: now.seconds, wrong: 1)
        }
    }
}
