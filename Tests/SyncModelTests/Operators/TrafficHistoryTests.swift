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
        #expect(history.hour.points.isEmpty && history.hour.beginning == nil)
        for second in 0...4_000 {
            // four pushes a second; the oldest waiting time is missing only before the hour that is kept
            history.record(
                totals(Double(second) * 4),
                oldest: second < 100 ? nil : 7,
                at: Self.start.adding(seconds: Double(second))
            )
        }
        #expect(history.hour.points.count == 240)
        #expect(
            history.hour.points.allSatisfy {
                $0.rates.pushes == 4 && $0.rates.failed == 2 && $0.oldestWaitingSeconds == 7
            }
        )
        #expect(history.rates.pushes == 4)
        #expect(history.hour.beginning == history.hour.end?.adding(seconds: -3_600))
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
        #expect(history.rates == TrafficTotals() && history.hour.points.isEmpty)
        for second in 0..<40 {
            history.record(totals(500), oldest: 0, at: Self.start.adding(seconds: Double(second - 59)))
        }
        #expect(history.hour.points.count == 2)
        // an hour in which the process was suspended
        history.record(totals(900), oldest: 0, at: Self.start.adding(seconds: 3_600))
        #expect(history.hour.points.count == 1)
        #expect(history.hour.points[0].rates.pushes < 1)
    }

    @Test func `keeps a point per five minutes for a day, and the amounts of both times`() {
        var history = TrafficHistory()
        #expect(history.day.since == nil && history.day.amounts == TrafficTotals())
        history.record(totals(1_000), oldest: nil, at: Self.start)
        history.record(totals(1_003), oldest: nil, at: Self.start.adding(seconds: 1))
        // work counts before the first point
        #expect(history.hour.amounts.pushes == 3 && history.day.amounts.pushes == 3)
        #expect(history.day.since == Self.start)
        for step in 1...6_000 {
            history.record(totals(1_003 + Double(step)), oldest: 0, at: Self.start.adding(seconds: Double(step) * 15))
        }
        #expect(history.day.points.count == 288 && history.hour.points.count == 240)
        // one push in fifteen seconds
        #expect(history.hour.amounts.pushes == 240)
        #expect(history.day.amounts.pushes == 5_760)
        #expect(history.day.since == Self.start.adding(seconds: 3_600))
        // the time after the last point counts, too
        history.record(totals(7_010), oldest: 0, at: Self.start.adding(seconds: 90_001))
        #expect(history.hour.amounts.pushes == 247)
    }
}
