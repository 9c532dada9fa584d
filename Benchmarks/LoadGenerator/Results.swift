/// The counts of the measurement.
struct Results {
    /// The status of a correct answer.
    let success: Int
    var pushes = 0
    var latencies = Latencies()
    /// The number of answers with each HTTP status.
    var statuses: [Int: Int] = [:]
    /// Pushes whose connection broke before the answer.
    var broken = 0
    /// Answered as expected.
    var right = 0
    /// With a fixed rate: pushes that were due while no connection was free.
    var missed = 0
    /// Pushes that were answered with an expected status, but with other content than expected.
    var wrong = 0
    /// Mutations whose answer has `replayed: true`.
    var replayed = 0
    /// The duration of the measurement, in seconds.
    var seconds = 0.0
    /// The load generator's own CPU in that time, in seconds.
    var cpu = 0.0

    var errors: Int { broken + statuses.filter { $0.key != success && $0.key != 202 }.values.reduce(0, +) }

    /// One line for machines.
    /// - Parameter total: the pushes of the whole run, with those before and after measuring.
    func line(_ options: Options, total: Int) -> String {
        let rate = Double(pushes) / max(seconds, 1e-9)
        var pairs: [(String, Any)] = [
            ("mode", options.mode.rawValue), ("connections", options.connections), ("mutations", options.mutations),
            ("seconds", rounded(seconds)), ("pushes", pushes), ("pushes_per_second", rounded(rate)),
            ("mutations_per_second", rounded(rate * Double(options.mutations))),
            ("p50_us", latencies.percentile(0.5)), ("p90_us", latencies.percentile(0.9)),
            ("p99_us", latencies.percentile(0.99)), ("max_us", latencies.maximum),
            ("errors", errors), ("wrong", wrong), ("replayed", replayed), ("total_pushes", total),
            ("own_cpu_seconds", rounded(cpu)), ("own_cpu_share", rounded(cpu / max(seconds, 1e-9))),
            ("own_cpu_us_per_push", rounded(cpu * 1e6 / Double(max(pushes, 1)))),
        ]
        pairs += statuses.sorted { $0.key < $1.key }.map { ("status_\($0.key)", $0.value) }
        if let rate = options.rate {
            let goodput = Double(right * options.mutations) / max(seconds, 1e-9)
            pairs += [("rate", rounded(rate)), ("goodput", rounded(goodput)), ("missed", missed)]
        }
        if broken > 0 { pairs.append(("broken", broken)) }
        return pairs.map { "\($0.0)=\($0.1)" }.joined(separator: " ")
    }

    private func rounded(_ number: Double) -> Double { (number * 1000).rounded() / 1000 }
}
