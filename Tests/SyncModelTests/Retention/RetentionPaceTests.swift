import SyncModel
import Testing

@Suite struct RetentionPaceTests {
    @Test func `batches grow while they are fast and shrink otherwise`() {
        var pace = RetentionPace()
        let first = pace.limit
        for _ in 0..<40 { _ = pace.pause(after: RetentionPace.aim / 4, rows: pace.limit, waiting: 0) }
        #expect(pace.limit == RetentionPace.limits.upperBound)
        #expect(first < pace.limit)
        for _ in 0..<40 { _ = pace.pause(after: RetentionPace.aim * 4, rows: pace.limit, waiting: 0) }
        #expect(pace.limit == RetentionPace.limits.lowerBound)
    }

    @Test func `a batch that was not full does not grow the limit`() {
        var pace = RetentionPace()
        let first = pace.limit
        _ = pace.pause(after: 0.001, rows: 3, waiting: 0)
        #expect(pace.limit == first)
    }

    @Test func `retention uses half of the time, and one tenth under load`() {
        var pace = RetentionPace()
        #expect(pace.pause(after: 0.02, rows: 200, waiting: 0) == 0.02)
        #expect(abs(pace.pause(after: 0.02, rows: 200, waiting: 1) - 0.18) < 1e-9)
    }

    @Test func `rising cost per row indicates other load on the database`() {
        var pace = RetentionPace()
        #expect(pace.pause(after: 0.01, rows: 200, waiting: 0) == 0.01)
        #expect(abs(pace.pause(after: 0.04, rows: 200, waiting: 0) - 0.36) < 1e-9)
        // a few rows are no evidence
        #expect(pace.pause(after: 0.01, rows: 2, waiting: 0) == 0.01)
    }

    @Test func `pauses are bounded`() {
        var pace = RetentionPace()
        #expect(pace.pause(after: 60, rows: 50, waiting: 9) == 5)
        #expect(pace.pause(after: 0, rows: 0, waiting: 0) == 0.001)
    }

    @Test func `payloads are deleted no later than their records`() {
        let now = Timestamp(microseconds: 1_795_000_000_000_000)
        let cutoffs = RetentionPolicy(payloadDays: 90, days: 30).cutoffs(at: now)
        #expect(cutoffs.payloads == cutoffs.everything)
        #expect(cutoffs.everything == now.adding(seconds: -30 * 86_400))
        #expect(RetentionPolicy().cutoffs(at: now).payloads == now.adding(seconds: -7 * 86_400))
    }

    @Test func `a report has a member for every kind`() {
        var report = RetentionReport()
        report[.tombstones] = 3
        report[.payloads] += 4
        #expect(report.total == 7)
        #expect(
            String(decoding: report.json, as: UTF8.self)
                == #"{"records":0,"payloads":4,"unsettled":0,"rejections":0,"tombstones":3,"channels":0,"mappings":0,"deliveries":0,"audit":0}"#
        )
    }
}
