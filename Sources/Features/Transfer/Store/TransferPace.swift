package import SyncModel

/// The pace of a transfer: the operator's rate, or, without one, a pace that leaves the database to others, as
/// retention does.
package struct TransferPace: Sendable {
    /// Lines that a batch may have.
    package static let limits = 1...500

    /// Lines a second, if an operator specified a rate.
    private let rate: Int?
    /// The shortest time from one batch to the next, in seconds.
    private let interval: Double
    private var pace = RetentionPace()
    /// How far a transfer is behind its rate: seconds that it may go without a pause.
    private var credit = 0.0

    /// - Parameters:
    ///   - rate: lines a second; nil: depends on the database's load.
    ///   - quota: of the organization's requests. A transfer uses none of it, because it is none of the phones, but
    ///     makes at most half as many batches as it allows.
    package init(rate: Int? = nil, quota: Quota? = nil) {
        self.rate = rate
        interval = quota.map { 2 / Double($0.limit) } ?? 0
    }

    /// Lines that the next batch may have: a tenth of a second's at a given rate.
    package var limit: Int {
        let most = rate.map { max(1, $0 / 10) } ?? pace.limit
        return min(max(most, Self.limits.lowerBound), Self.limits.upperBound)
    }

    /// Returns the seconds to pause after a batch; after one without lines, the time that it took.
    package mutating func pause(after seconds: Double, lines: Int) -> Double {
        guard lines > 0 else { return rate == nil ? min(seconds, 1) : 0 }
        let own = pace.pause(after: seconds, rows: lines, waiting: 0)
        guard let rate else { return max(own, interval - seconds) }
        // the delay of a batch is made up for within a second
        credit = min(credit + seconds - Double(lines) / Double(rate), 1)
        let pause = max(0, -credit, interval - seconds)
        credit += pause
        return pause
    }
}
