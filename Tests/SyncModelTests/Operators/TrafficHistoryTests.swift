import Testing

@testable import SyncModel

@Suite struct TrafficHistoryTests {
    private static let start = Timestamp(microseconds: 1_795_000_000_000_000)

    private func totals(_ number: Double) -> TrafficTotals {
        var totals = TrafficTotals()
        totals.pushes = number
        totals.failed = number / 2
        return totals
    }

    @Test func `keeps a point per fifteen seconds for an hour`() {
        var history = TrafficHistory()
        #expect(history.points.isEmpty && history.beginning == nil)
        for second in 0...4_000 {
            // four pushes a second; the oldest waiting time is missing only before the hour that is kept
            history.record(
                totals(Double(second) * 4),
                oldest: second < 100 ? nil : 7,
                at: Self.start.adding(seconds: Double(second))
            )
        }
        #expect(history.points.count == TrafficHistory.capacity)
        #expect(
            history.points.allSatisfy { $0.rates.pushes == 4 && $0.rates.failed == 2 && $0.oldestWaitingSeconds == 7 }
        )
        #expect(history.rates.pushes == 4)
        #expect(history.beginning == history.end?.adding(seconds: -3_600))
    }

    @Test func `current rates are the average of ten seconds`() {
        var history = TrafficHistory()
        history.record(totals(100), oldest: nil, at: Self.start)
        #expect(history.rates == TrafficTotals())
        history.record(totals(130), oldest: nil, at: Self.start.adding(seconds: 2))
        #expect(history.rates.pushes == 15)
        history.record(totals(130), oldest: nil, at: Self.start.adding(seconds: 13))
        history.record(totals(130), oldest: nil, at: Self.start.adding(seconds: 14))
        #expect(history.rates.pushes == 0)
    }

    @Test func `a jump of the clock causes no false rate`() {
        var history = TrafficHistory()
        history.record(totals(100), oldest: nil, at: Self.start)
        history.record(totals(500), oldest: nil, at: Self.start.adding(seconds: -60))
        #expect(history.rates == TrafficTotals() && history.points.isEmpty)
        for second in 0..<40 {
            history.record(totals(500), oldest: 0, at: Self.start.adding(seconds: Double(second - 59)))
        }
        #expect(history.points.count == 2)
        // an hour in which the process was suspended
        history.record(totals(900), oldest: 0, at: Self.start.adding(seconds: 3_600))
        #expect(history.points.count == 1)
        #expect(history.points[0].rates.pushes < 1)
    }
}
