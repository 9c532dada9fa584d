import Foundation
import SyncModel
import Testing

@Suite struct StatusTests {
    @Test func `nothing leaves a final status`() {
        for status in MutationStatus.allCases where status.isFinal || status == .rejected {
            #expect(MutationStatus.allCases.allSatisfy { !status.canBecome($0) })
        }
    }

    @Test func `nothing becomes rejected or stays in place`() {
        for status in MutationStatus.allCases {
            #expect(!status.canBecome(.rejected))
            #expect(!status.canBecome(status))
        }
    }

    @Test func `only a person moves what failed`() {
        let moves = MutationStatus.allCases.filter { MutationStatus.failed.canBecome($0) }
        #expect(moves == [.pending, .blocked, .discarded])
    }

    @Test func `what stays where it is, or moves as the table says, may be written`() {
        #expect(MutationStatus.inFlight.moved(to: .succeeded) == .succeeded)
        #expect(MutationStatus.pending.moved(to: .pending) == .pending)
        #expect(MutationStatus.discarded.moved(to: .discarded) == .discarded)
    }

    @Test func `what a person or retention may do is in the table`() {
        #expect(MutationStatus.forAPerson.allSatisfy { $0.canBecome(.pending) && $0.isSettled && !$0.isFinal })
        // what is being sent is given up by its outcome alone
        let discardable = MutationStatus.allCases.filter { $0.canBecome(.discarded) && $0 != .inFlight }
        #expect(Set(DiscardPlanner.statuses) == Set(discardable))
    }
}
