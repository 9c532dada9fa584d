package import SyncModel
import Synchronization

/// The `Date` header's value (RFC 9110, 5.6.7), made once a second.
package final class HTTPDate: Sendable {
    private let cached = Mutex((seconds: Int64.min, text: ""))

    package func text(at now: Timestamp) -> String {
        let seconds = now.seconds
        return cached.withLock { cached in
            if cached.seconds != seconds { cached = (seconds, Self.format(now)) }
            return cached.text
        }
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    package static func format(_ now: Timestamp) -> String {
        // 1970-01-01, day 0, was a Thursday
        let day = (now.seconds >= 0 ? now.seconds : now.seconds - 86_399) / 86_400
        let weekday = days[Int(((day + 4) % 7 + 7) % 7)]
        let text = Array(now.rfc3339.utf8)
        func part(_ range: Range<Int>) -> String { String(decoding: text[range], as: UTF8.self) }
        let month = months[(Int(part(5..<7)) ?? 1) - 1]
        return "\(weekday), \(part(8..<10)) \(month) \(part(0..<4)) \(part(11..<19)) GMT"
    }

    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
