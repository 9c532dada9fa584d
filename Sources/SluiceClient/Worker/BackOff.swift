/// The pause after failed attempts. It grows with each failure of one outage, and ends with the first success.
struct BackOff: Sendable {
    static let first = 1.0
    static let limit = 60.0

    private(set) var failures = 0
    /// The last failure.
    private(set) var cause: TransientError?
    private var deadline = ContinuousClock.now

    /// How much of the pause is left; nil for nothing.
    var remaining: Duration? {
        deadline > .now ? ContinuousClock.now.duration(to: deadline) : nil
    }

    /// Whether the gateway has asked for the pause.
    var isRequested: Bool { cause?.retryAfter != nil }

    /// - Parameter least: the shortest pause, in seconds.
    mutating func fail(_ cause: TransientError? = nil, least: Double = 0) {
        failures += 1
        self.cause = cause
        let seconds = Self.seconds(failures: failures, retryAfter: cause?.retryAfter, least: least)
        deadline = ContinuousClock.now.advanced(by: .seconds(seconds))
    }

    /// Ends the pause. A further failure begins a longer one.
    mutating func end() { deadline = .now }

    /// Returns the pause: doubled with each failure up to a minute, with jitter of a fifth, and never shorter than the
    /// gateway asked for.
    static func seconds(
        failures: Int,
        retryAfter: Double? = nil,
        least: Double = 0,
        random: Double = .random(in: 0..<0.2)
    ) -> Double {
        let base = first * Double(1 << min(max(failures - 1, 0), 20)) * (1 + random)
        return max(min(limit, max(base, least)), (retryAfter ?? 0) * (1 + random))
    }
}
