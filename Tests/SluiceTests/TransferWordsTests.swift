import Testing
import TransferFeature

@testable import Sluice

/// What imports and exports say of how far they are.
@Suite struct TransferWordsTests {
    @Test func `a bar fills up and says how long it takes`() {
        #expect(
            TransferWords.bar(share: 0.5, lines: 400_000, seconds: 200, width: 10)
                == "[#####·····]  50 %  400000 lines, 2000 per second, 3 min left"
        )
        #expect(TransferWords.bar(share: 1, lines: 10, seconds: 2, width: 4) == "[####] 100 %  10 lines, 5 per second")
        #expect(TransferWords.bar(share: 1.5, lines: 0, seconds: 0, width: 4) == "[####] 100 %  0 lines, 0 per second")
        #expect(TransferWords.bar(share: nil, lines: 10, seconds: 2) == "10 lines, 5 per second", "a pipe has no size")
    }

    @Test func `the end says what became of every line`() {
        var report = EntityImport.Report()
        (report.lines, report.applied, report.stale, report.duplicates, report.refused) = (10, 5, 1, 3, 1)
        #expect(
            TransferWords.summary(report, seconds: 2, isDryRun: false)
                == "5 applied, 1 stale, 3 duplicates, 1 rejected; 10 lines in 2 s, 5 per second"
        )
        (report.parked, report.echoes, report.leftOut) = (2, 1, 4)
        #expect(
            TransferWords.summary(report, seconds: 2, isDryRun: false).hasPrefix(
                "5 applied, 1 stale, 3 duplicates, 1 echoes, 2 waiting for the upstream, 1 rejected, 4 omitted;"
            )
        )
        #expect(TransferWords.summary(report, seconds: 2, isDryRun: true).contains("nothing was written"))
    }

    @Test func `a pace keeps to its rate and leaves the rest to others`() {
        var fast = TransferPace(rate: 1_000)
        #expect(fast.limit == 100)
        #expect(abs(fast.pause(after: 0.02, lines: 100) - 0.08) < 0.001)
        // what took too long is made up for
        #expect(fast.pause(after: 0.15, lines: 100) == 0)
        #expect(abs(fast.pause(after: 0.02, lines: 100) - 0.03) < 0.001)
        var own = TransferPace()
        #expect(own.pause(after: 0.02, lines: 200) == 0.02)
        #expect(own.pause(after: 0.03, lines: 0) == 0.03, "a look-up says nothing of what batches cost")
        #expect(abs(own.pause(after: 0.2, lines: 200) - 1.8) < 0.001, "somebody else has work to do")
        #expect(TransferPace(rate: 1_000_000).limit == 500 && TransferPace(rate: 1).limit == 1)
    }
}
