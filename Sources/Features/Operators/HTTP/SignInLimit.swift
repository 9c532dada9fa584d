package import SyncModel
import Synchronization

/// Counts wrong tokens at the sign-in for each address, so that guessing slows down only the guesser.
package final class SignInLimit: Sendable {
    /// Wrong tokens that an address may try within a window.
    package static let tries = 10
    /// The window, in seconds.
    package static let seconds: Int64 = 60
    /// Addresses that are remembered; beyond it all are forgotten that are the oldest.
    package static let addresses = 1_024

    private struct Window {
        package var began: Int64
        package var wrong: Int
    }

    private let windows = Mutex([ByteExactString: Window]())

    /// The result of an attempt.
    package enum Attempt<Found: Sendable>: Sendable {
        case right(Found)
        case wrong
        /// There were too many before it, and it was not checked; seconds until the address may try again.
        case tooMany(seconds: Int64)
    }

    /// Makes an attempt and counts it, in one step, so that concurrent attempts count like sequential ones.
    ///
    /// - Parameter find: returns what the token authenticates; nil for a wrong one. It must be quick, since others wait
    ///   for it.
    package func attempt<Found: Sendable>(_ address: String, at now: Timestamp, _ find: () -> Found?) -> Attempt<Found>
    {
        windows.withLock { windows -> Attempt<Found> in
            var window = windows[address] ?? Window(began: now.seconds, wrong: 0)
            if now.seconds >= window.began + Self.seconds { window = Window(began: now.seconds, wrong: 0) }
            guard window.wrong < Self.tries else {
                return .tooMany(seconds: window.began + Self.seconds - now.seconds)
            }
            if let found = find() { return .right(found) }
            window.wrong += 1
            if windows[address] == nil { Self.makeRoom(in: &windows, at: now) }
            windows[address] = window
            return .wrong
        }
    }

    private static func makeRoom(in windows: inout [ByteExactString: Window], at now: Timestamp) {
        if windows.count >= addresses { windows = windows.filter { now.seconds < $0.value.began + seconds } }
        if windows.count >= addresses, let oldest = windows.min(by: { $0.value.began < $1.value.began }) {
            windows[oldest.key] = nil
        }
    }
}
