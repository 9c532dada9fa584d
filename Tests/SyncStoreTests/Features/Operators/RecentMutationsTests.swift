import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import OperatorsFeature
@testable import SyncStore

/// Lists mutations in every status, of one user or of all users of an organization.
@Suite struct RecentMutationsTests {
    /// All mutations that match a filter, page by page.
    private func list(
        _ filter: RecentMutations.Filter = RecentMutations.Filter(),
        of organization: UUID,
        on gateway: Gateway,
        limit: Int = 100
    ) async throws -> [UUID] {
        var (found, cursor): ([UUID], String?) = ([], nil)
        repeat {
            let page = try await gateway.store.recentMutations.page(
                filter,
                organization: organization,
                limit: limit,
                cursor: cursor
            )
            (found, cursor) = (found + page.mutations.map(\.id), page.next)
        } while cursor != nil
        return found
    }

    @Test func `final, stuck and open mutations are listed by time, within their organization`() async throws {
        let ada = try await Phone.forwarding()
        let (gateway, organization, bob) = (ada.gateway, ada.organization.id, ada.neighbour())
        let stranger = Phone(gateway, try await gateway.organization("{}"))
        let foreign = stranger.create()
        try await stranger.push([foreign])
        let done = ada.forward("create", local: UUID())
        try await ada.push([done])
        let firstAt = gateway.clock.now
        try await ada.leave(done.id, "succeeded", "changed_at = '\(firstAt.rfc3339)'")
        try await ada.execute(
            "UPDATE mutations SET synced_at = '\(firstAt.rfc3339)' WHERE id = '\(done.id)' AND status = 'succeeded'"
        )
        gateway.clock.advance(seconds: 1)
        let open = bob.forward("create", "note", local: UUID())
        try await bob.push([open])
        gateway.clock.advance(seconds: 1)
        let stuck = try await ada.pushStuck(1)[0]

        for limit in [1, 2, 100] {
            #expect(try await list(of: organization, on: gateway, limit: limit) == [stuck.id, open.id, done.id])
        }
        #expect(try await list(of: stranger.organization.id, on: gateway) == [foreign.id])
        func found(_ change: (inout RecentMutations.Filter) -> Void) async throws -> [UUID] {
            var filter = RecentMutations.Filter()
            change(&filter)
            let ids = try await list(filter, of: organization, on: gateway, limit: 1)
            let all = try await list(filter, of: stranger.organization.id, on: gateway)
            #expect(Set(all).isSubset(of: [foreign.id]), "\(filter)")
            return ids
        }
        #expect(try await found { $0.statuses = [.pending] } == [open.id])
        #expect(try await found { $0.statuses = [.failed, .conflict] } == [stuck.id])
        #expect(try await found { $0.statuses = [.succeeded, .discarded] } == [done.id])
        #expect(try await found { $0.entityType = "note" } == [open.id])
        #expect(try await found { ($0.entityType, $0.entityID) = ("task", "x") } == [done.id])
        #expect(try await found { $0.device = bob.device } == [open.id])
        #expect(try await found { $0.until = firstAt } == [done.id])
        // a user's mutations are in the order of the lane
        #expect(try await found { $0.user = ada.user } == [stuck.id, done.id])
        #expect(try await found { ($0.user, $0.statuses) = (ada.user, [.succeeded]) } == [done.id])
        for id in [done.id, open.id, stuck.id] { #expect(try await found { $0.mutation = id } == [id]) }
        #expect(try await found { ($0.user, $0.mutation) = (ada.user, done.id) } == [done.id])
        #expect(try await found { ($0.user, $0.mutation) = (bob.user, done.id) } == [])
        #expect(try await found { $0.mutation = foreign.id } == [])
    }

    @Test func `a page examines a limited number of mutations, and the next page continues`() async throws {
        let phone = try await Phone.forwarding()
        // the final mutations with equal times, and the stuck mutations, are each more than a page examines
        try await phone.fillStuck(33_000)
        var filter = RecentMutations.Filter()
        filter.entityType = "type3"
        let first = try await phone.gateway.store.recentMutations.page(
            filter,
            organization: phone.organization.id,
            limit: 1_000,
            cursor: nil
        )
        #expect(first.next != nil)
        let ids = try await list(filter, of: phone.organization.id, on: phone.gateway, limit: 1_000)
        let connection = try await phone.gateway.database.connect()
        defer { connection.close() }
        let count: Int64 = try await connection.run(
            Query(
                Statement(
                    "",
                    """
                    SELECT count(*) FROM mutations
                    WHERE organization_id = '\(phone.organization.id)' AND entity_type = 'type3'
                    """
                )
            )
        ).read(0, 0)
        #expect(ids.count == Int(count) && Set(ids).count == ids.count)
    }

    @Test func `a cursor belongs to its filter and its organization`() async throws {
        let phone = try await Phone.forwarding()
        try await phone.pushStuck(2)
        let reader = phone.gateway.store.recentMutations
        let filter = RecentMutations.Filter()
        let page = try await reader.page(filter, organization: phone.organization.id, limit: 1, cursor: nil)
        let next = try #require(page.next)
        var other = filter
        other.statuses = [.failed]
        for (filter, organization, cursor) in [
            (other, phone.organization.id, next), (filter, UUID(), next), (filter, phone.organization.id, "r1.0.x"),
        ] {
            await #expect(throws: Problem.self) {
                _ = try await reader.page(filter, organization: organization, limit: 1, cursor: cursor)
            }
        }
    }
}
