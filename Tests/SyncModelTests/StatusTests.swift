import Foundation
import SyncModel
import Testing

@Suite struct StatusTests {
    @Test func nothingLeavesAFinalStatus() {
        for status in MutationStatus.allCases where status.isFinal || status == .rejected {
            #expect(MutationStatus.allCases.allSatisfy { !status.canBecome($0) })
        }
    }

    @Test func nothingBecomesRejectedOrStaysInPlace() {
        for status in MutationStatus.allCases {
            #expect(!status.canBecome(.rejected))
            #expect(!status.canBecome(status))
        }
    }

    @Test func onlyAPersonMovesWhatFailed() {
        let moves = MutationStatus.allCases.filter { MutationStatus.failed.canBecome($0) }
        #expect(moves == [.pending, .blocked, .discarded])
    }
}
