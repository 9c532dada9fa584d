import Foundation
import Testing

@testable import SyncModel

@Suite struct FailureClassTests {
    private static func mark(_ status: MutationStatus, _ error: String?, _ answer: Int16? = nil) -> FailureClass? {
        FailureClass(of: status, error: error.map { Array($0.utf8) }, responseStatus: answer)
    }

    @Test func `only mutations that wait for a person have a mark`() {
        for status in MutationStatus.allCases {
            let mark = Self.mark(status, #"{"code":"upstream_rejected"}"#, 422)
            #expect((mark != nil) == [.failed, .conflict].contains(status), "\(status)")
        }
    }

    @Test func `the mark has the problem's code and the answer's status`() {
        let mark = Self.mark(.failed, #"{"code":"max_attempts_reached","detail":"x"}"#, 503)
        #expect(mark?.code == "max_attempts_reached" && mark?.status == 503)
        #expect(Self.mark(.failed, #"{"code":"validation_failed"}"#)?.status == 0)
    }

    /// Queries distinguish conflicts from failures by the code alone.
    @Test func `conflicts have the code conflict, and failures never do`() {
        #expect(Self.mark(.conflict, #"{"code":"upstream_rejected"}"#, 409)?.code == "conflict")
        #expect(Self.mark(.conflict, nil)?.code == "conflict")
        #expect(Self.mark(.failed, #"{"code":"conflict"}"#, 409)?.code == "upstream_rejected")
        #expect(Self.mark(.failed, nil)?.code == "upstream_rejected")
        #expect(Self.mark(.failed, "[]")?.code == "upstream_rejected")
        #expect(Self.mark(.failed, "{")?.code == "upstream_rejected")
    }

    @Test func `a group's key determines its status`() {
        #expect(FailureGroup.Key(entityType: "task", errorCode: "conflict", responseStatus: 409).status == .conflict)
        #expect(
            FailureGroup.Key(entityType: "task", errorCode: "upstream_rejected", responseStatus: 0).status == .failed
        )
    }

    @Test func `a filter identifies a group only by all of its columns`() {
        var filter = FailureFilter()
        #expect(filter.group == nil)
        filter.entityType = "task"
        filter.errorCode = "upstream_rejected"
        #expect(filter.group == nil)
        filter.responseStatus = 0
        #expect(filter.group == FailureGroup.Key(entityType: "task", errorCode: "upstream_rejected", responseStatus: 0))
    }

    @Test func `filters that differ in any member differ in cursors`() {
        let user = UUID()
        let changes: [(inout FailureFilter) -> Void] = [
            { $0.statuses = [.failed] }, { $0.statuses = [.conflict] }, { $0.statuses = [.failed, .conflict] },
            { $0.entityType = "task" }, { $0.errorCode = "task" }, { $0.responseStatus = 0 }, { $0.responseStatus = 1 },
            { $0.user = user },
        ]
        let filters =
            [FailureFilter()]
            + changes.map { change in
                var filter = FailureFilter()
                change(&filter)
                return filter
            }
        #expect(Set(filters.map(\.standIn)).count == filters.count)
        var (one, other) = (FailureFilter(), FailureFilter())
        one.statuses = [.failed, .conflict]
        other.statuses = [.conflict, .failed]
        #expect(one.standIn == other.standIn)
    }

    @Test func `a count stops at its limit and indicates it`() {
        #expect(BoundedCount(found: 10_000) == BoundedCount(found: 10_000, limit: 10_000))
        #expect(!BoundedCount(found: 10_000).isMore && BoundedCount(found: 10_001).isMore)
        #expect(BoundedCount(found: 10_001).count == 10_000)
    }
}
