import Foundation
import SyncModel
import Testing

@Suite struct StatusTests {
    @Test func `a final status never changes`() {
        for status in MutationStatus.allCases where status.isFinal || status == .rejected {
            #expect(MutationStatus.allCases.allSatisfy { !status.canBecome($0) })
        }
    }

    @Test func `no transition leads to rejected, or back to the same status`() {
        for status in MutationStatus.allCases {
            #expect(!status.canBecome(.rejected))
            #expect(!status.canBecome(status))
        }
    }

    @Test func `only a person changes a failed status`() {
        let moves = MutationStatus.allCases.filter { MutationStatus.failed.canBecome($0) }
        #expect(moves == [.pending, .blocked, .discarded])
    }

    @Test func `writes an unchanged status or a permitted transition`() {
        #expect(MutationStatus.inFlight.moved(to: .succeeded) == .succeeded)
        #expect(MutationStatus.pending.moved(to: .pending) == .pending)
        #expect(MutationStatus.discarded.moved(to: .discarded) == .discarded)
    }

    @Test func `the table permits the transitions of persons and retention`() {
        #expect(MutationStatus.forAPerson.allSatisfy { $0.canBecome(.pending) && $0.isSettled && !$0.isFinal })
        // a mutation in flight is discarded only through its outcome
        let discardable = MutationStatus.allCases.filter { $0.canBecome(.discarded) && $0 != .inFlight }
        #expect(Set(DiscardPlanner.statuses) == Set(discardable))
    }
}
