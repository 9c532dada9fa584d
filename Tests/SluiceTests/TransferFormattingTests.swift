import Testing

@testable import TransferFeature

/// The progress texts of imports and exports.
@Suite struct TransferFormattingTests {
    @Test func `a progress bar fills up and shows the remaining time`() {
        #expect(
            TransferFormatting.bar(share: 0.5, lines: 400_000, seconds: 200, width: 10)
                == "[#####·····]  50 %  400000 lines, 2000 per second, 3 min left"
        )
        #expect(
            TransferFormatting.bar(share: 1, lines: 10, seconds: 2, width: 4) == "[####] 100 %  10 lines, 5 per second"
        )
        #expect(
            TransferFormatting.bar(share: 1.5, lines: 0, seconds: 0, width: 4) == "[####] 100 %  0 lines, 0 per second"
        )
        #expect(
            TransferFormatting.bar(share: nil, lines: 10, seconds: 2) == "10 lines, 5 per second",
            "without a size there is no share"
        )
    }

    @Test func `the summary reports the result of all lines`() {
        var report = EntityImport.Report()
        (report.lines, report.applied, report.stale, report.duplicates, report.refused) = (10, 5, 1, 3, 1)
        #expect(
            TransferFormatting.summary(report, seconds: 2, isDryRun: false)
                == "5 applied, 1 stale, 3 duplicates, 1 rejected; 10 lines in 2 s, 5 per second"
        )
        (report.parked, report.echoes, report.leftOut) = (2, 1, 4)
        #expect(
            TransferFormatting.summary(report, seconds: 2, isDryRun: false).hasPrefix(
                "5 applied, 1 stale, 3 duplicates, 1 echoes, 2 waiting for the upstream, 1 rejected, 4 omitted;"
            )
        )
        #expect(TransferFormatting.summary(report, seconds: 2, isDryRun: true).contains("nothing was written"))
    }

    @Test func `a transfer keeps to its rate and pauses for other work`() {
        var fast = TransferPace(rate: 1_000)
        #expect(fast.limit == 100)
        #expect(abs(fast.pause(after: 0.02, lines: 100) - 0.08) < 0.001)
        // a batch that took too long shortens the next pauses
        #expect(fast.pause(after: 0.15, lines: 100) == 0)
        #expect(abs(fast.pause(after: 0.02, lines: 100) - 0.03) < 0.001)
        var own = TransferPace()
        #expect(own.pause(after: 0.02, lines: 200) == 0.02)
        #expect(own.pause(after: 0.03, lines: 0) == 0.03, "a look-up does not measure the cost of batches")
        #expect(abs(own.pause(after: 0.2, lines: 200) - 1.8) < 0.001, "the database has other work")
        #expect(TransferPace(rate: 1_000_000).limit == 500 && TransferPace(rate: 1).limit == 1)
    }
}
