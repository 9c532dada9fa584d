import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import OperatorsFeature
@testable import SyncStore

/// Operators' filters find mutations that are listed after more rows than a count examines.
@Suite struct OperationCandidateTests {
    /// A phone, and more than 10,000 failures of other users that are older than the phone's pushes.
    private static func crowded() async throws -> Phone {
        let phone = try await Phone.forwarding()
        try await phone.fillStuck(33_000, since: "2026-11-11T07:00:00Z")
        try await phone.execute(
            """
            UPDATE mutations SET status = 'failed', error_code = 'upstream_rejected'
            WHERE stuck_at IS NOT NULL
            """
        )
        return phone
    }

    @Test func `mutations by ids, user or type are counted despite thousands of older failures`() async throws {
        let one = try await Self.crowded()
        let mine = try await one.pushStuck(30)
        let note = try await one.pushStuck(1, "note")[0]
        func preview(_ filter: String) async throws -> OperationStore.Preview {
            let draft = try one.gateway.draft(#""kind":"retry","filter":{\#(filter)}"#)
            return try await one.gateway.store.operations.preview(draft, in: one.organization.id)
        }
        let names = [mine[0].id, mine[1].id, mine[1].id, UUID()].map { "\"\($0.lowercased)\"" }.joined(separator: ",")
        let named = try await preview(#""ids":[\#(names)]"#)
        #expect(named.count == BoundedCount(found: 2) && named.users == BoundedCount(found: 1))
        #expect(Set(named.sample.map(\.id)) == [mine[0].id, mine[1].id])
        let other = try await preview(#""ids":[\#(names)],"user_id":"\#(UUID().lowercased)""#)
        #expect(other.count == BoundedCount(found: 0) && other.sample.isEmpty)
        let ofUser = try await preview(#""user_id":"\#(one.user.lowercased)""#)
        #expect(ofUser.count == BoundedCount(found: 31) && ofUser.users == BoundedCount(found: 1))
        #expect(ofUser.sample.count == OperationStore.sample)
        #expect(ofUser.sample.allSatisfy { $0.lane.user == one.user })
        let ofType = try await preview(#""entity_type":"note""#)
        #expect(ofType.count == BoundedCount(found: 1) && ofType.sample.map(\.id) == [note.id])
        let all = try await preview("")
        #expect(all.count.count == 10_000 && all.count.isMore)
        #expect(all.sample.count == OperationStore.sample)
    }

    /// On a cluster, lists over all organizations may have short pages, and counts are lower bounds.
    @Test(.onOneServer("searches more than ten thousand mutations of all organizations"))
    func `finds and counts conflicts despite thousands of older failures`() async throws {
        let one = try await Self.crowded()
        let conflict = try await one.pushStuck(1, "note", "conflict", 409)[0]
        try await one.execute("UPDATE mutations SET stuck_at = '2026-01-01' WHERE id = '\(conflict.id)'")
        var filter = FailureFilter()
        filter.statuses = [.conflict]
        for organization in [nil, Optional(one.organization.id)] {
            let page = try await one.gateway.store.stuckList.page(
                filter,
                organization: organization,
                limit: 10,
                cursor: nil
            )
            #expect(page.mutations.map(\.id) == [conflict.id] && page.next == nil)
        }
        let reader = one.gateway.store.nowReader
        let state = try await reader.state()
        #expect(state.failed == BoundedCount(count: 10_000, isMore: true))
        #expect(state.conflict == BoundedCount(count: 1))
        let counts = try #require(
            try await one.gateway.store.stuckCounts.counts(of: [one.organization.id])[one.organization.id]
        )
        #expect(counts.failed == BoundedCount(count: 1_000, isMore: true))
        #expect(counts.conflict == BoundedCount(count: 1))
    }

    @Test func `a filtered list is in order across pages`() async throws {
        let one = try await Phone.forwarding()
        let two = one.neighbour()
        for code in ["upstream_rejected", "conflict", "max_attempts_reached"] {
            one.gateway.clock.advance(seconds: 1)
            try await one.pushStuck(3, "task", code, 409)
            one.gateway.clock.advance(seconds: 1)
            try await two.pushStuck(2, "note", code, 0)
        }
        for organization in [nil, Optional(one.organization.id)] {
            let all = try await one.gateway.stuck(of: organization)
            for status in MutationStatus.forAPerson {
                var filter = FailureFilter()
                filter.statuses = [status]
                let wanted = all.filter { ($0.errorCode == "conflict") == (status == .conflict) }.map(\.id)
                for limit in [1, 2, 100] {
                    let found = try await one.gateway.stuck(filter, of: organization, limit: limit)
                    #expect(found.map(\.id) == wanted && wanted.count >= 5, "\(status) \(limit)")
                }
            }
        }
    }
}
