import Foundation

/// The result of a request. Only ``ok(_:)`` and ``refused(_:)`` are certainly from the gateway itself.
enum Reply: Sendable {
    case ok(JSON)
    /// A problem with the request itself.
    case refused(Problem)
    /// The result is unknown. No response arrived, the response is from a proxy or captive portal, or the gateway
    /// requests a later attempt.
    case again(TransientError)
    /// The gateway, or a proxy in front of the gateway, does not accept the token.
    case unauthorized(TransientError)
}

/// The reason why a request failed, and the earliest time of the next attempt.
struct TransientError: Sendable, Hashable {
    /// Whether there was no connection.
    var isOffline = false
    /// A description, for display.
    let text: String
    /// The number of seconds that the gateway requested to wait, at most a day.
    var retryAfter: Double?
}

extension Reply {
    /// Interprets a response (`docs/clients.md`, the answer to a request).
    ///
    /// - Parameters:
    ///   - retryAfter: the header `Retry-After`: seconds, or a date (RFC 9110, 10.2.3).
    static func of(status: Int, body: some Sequence<UInt8>, retryAfter: String? = nil, now: Date = Date()) -> Reply {
        let json = try? JSON(parsing: body)
        if (200..<300).contains(status) {
            // the response may be from a captive portal, which also answers 200
            guard let json, json.object != nil else { return .again(TransientError(text: "an answer without JSON")) }
            return .ok(json)
        }
        let problem = json.map { Problem(status: status, $0) }
        let isOurs = problem?.json["type"]?.string?.hasPrefix("urn:sluice:problem:") ?? false
        let trouble = TransientError(
            text: problem.flatMap { isOurs ? $0.description : nil } ?? "an answer of status \(status)",
            retryAfter: retryAfter.flatMap { seconds($0, now) }
        )
        guard let problem, isOurs else {
            // the answer is from a proxy in front of the gateway, so it does not decide about a write
            return [401, 403, 407].contains(status) ? .unauthorized(trouble) : .again(trouble)
        }
        switch status {
        case 401: return .unauthorized(trouble)
        case 408, 429, 500...: return .again(trouble)
        default: return .refused(problem)
        }
    }

    /// - Returns: the number of seconds, at most one day for any header.
    private static func seconds(_ header: String, _ now: Date) -> Double? {
        let day = 86_400.0
        if let seconds = Double(header), seconds >= 0 { return min(seconds, day) }
        let style = Date.ParseStrategy(
            format: """
                \(weekday: .abbreviated), \(day: .twoDigits) \(month: .abbreviated) \(year: .defaultDigits) \
                \(hour: .twoDigits(clock: .twentyFourHour, hourCycle: .zeroBased)):\(minute: .twoDigits):\(second: .twoDigits) GMT
                """,
            locale: Locale(identifier: "en_US_POSIX"),
            timeZone: .gmt
        )
        return (try? Date(header, strategy: style)).map { min(max(0, $0.timeIntervalSince(now)), day) }
    }
}
