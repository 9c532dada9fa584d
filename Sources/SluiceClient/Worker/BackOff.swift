/// How long to wait after attempts that came to nothing.
struct BackOff: Sendable {
    static let first = 1.0
    static let limit = 300.0

    /// Seconds: doubled with each failure up to five minutes, with jitter of a fifth, and never before the gateway asked
    /// for it.
    static func seconds(failures: Int, retryAfter: Double?, random: Double = .random(in: 0..<0.2)) -> Double {
        let base = min(limit, first * Double(1 << min(max(failures - 1, 0), 20)))
        return max(base, retryAfter ?? 0) * (1 + random)
    }
}
