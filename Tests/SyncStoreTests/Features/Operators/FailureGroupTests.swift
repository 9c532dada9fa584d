import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import AdministrationFeature
@testable import OperatorsFeature
@testable import SyncStore

/// Stuck mutations, grouped by common properties, over users and organizations.
@Suite struct FailureGroupTests {
    /// Two organizations on one gateway, with users of each.
    private static func tenants() async throws -> (Phone, Phone, Phone) {
        let one = try await Phone.forwarding()
        let id = UUID()
        _ = try await one.gateway.store.administration.put(
            id,
            OrganizationUpdate(body: Array(#"{"name":"Others"}"#.utf8))
        )
        try await one.execute(
            """
            INSERT INTO upstreams SELECT '\(id)', base_url, credential, timeout_seconds, max_concurrency, id_pointer,
                headers, updated_at FROM upstreams WHERE organization_id = '\(one.organization.id)';
            INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded)
            SELECT '\(id)', name, id_space, visibility, default_priority, is_forwarded FROM entity_types
            WHERE organization_id = '\(one.organization.id)'
            """
        )
        one.gateway.clock.advance(seconds: 6)
        one.gateway.store.catalog.invalidate(id)
        return (one, one.neighbour(), Phone(one.gateway, try await one.gateway.known(id)))
    }

    @Test func `groups are counted over all users of each organization`() async throws {
        let (one, two, stranger) = try await Self.tenants()
        let gateway = one.gateway
        try await one.pushStuck(2)
        let firstAt = gateway.clock.now
        gateway.clock.advance(seconds: 60)
        let last = try await two.pushStuck(1)[0]
        try await two.pushStuck(1, "note", "conflict", 409)
        try await two.pushStuck(1, "note", "max_attempts_reached", 0)
        try await stranger.pushStuck(1)
        try await two.push([two.forward("create", "contact", local: UUID())])

        let mine = try await gateway.groups(of: one.organization.id)
        #expect(
            Set(mine.map(\.summary)) == [
                "task upstream_rejected 422 3", "note conflict 409 1", "note max_attempts_reached 0 1",
            ]
        )
        let tasks = try #require(mine.first)
        #expect(tasks.summary == "task upstream_rejected 422 3", "the largest group is first")
        #expect(tasks.firstAt == firstAt && tasks.lastAt == gateway.clock.now)
        #expect(tasks.user == two.user && tasks.mutation == last.id && tasks.organizationName == "Test")
        #expect(tasks.detail == "no upstream_rejected 422")
        let all = try await gateway.groups()
        #expect(all.count == 4 && Set(all.map(\.organization)) == [one.organization.id, stranger.organization.id])
        let theirs = try await gateway.groups(of: stranger.organization.id)
        #expect(theirs.map(\.summary) == ["task upstream_rejected 422 1"] && theirs[0].user == stranger.user)
        #expect(try await gateway.groups(of: UUID()).isEmpty)
    }

    @Test func `a filter returns only its groups`() async throws {
        let (one, _, _) = try await Self.tenants()
        try await one.pushStuck(1)
        try await one.pushStuck(1, "note", "conflict", 409)
        try await one.pushStuck(1, "note", "max_attempts_reached", 0)
        func found(_ change: (inout FailureFilter) -> Void) async throws -> Set<String> {
            var filter = FailureFilter()
            change(&filter)
            let groups = try await one.gateway.groups(filter, of: one.organization.id)
            let list = try await one.gateway.stuck(filter, of: one.organization.id)
            #expect(groups.map(\.count.count).reduce(0, +) == Int64(list.count))
            return Set(groups.map(\.key.errorCode))
        }
        #expect(try await found { $0.statuses = [.conflict] } == ["conflict"])
        #expect(try await found { $0.statuses = [.failed] } == ["upstream_rejected", "max_attempts_reached"])
        #expect(try await found { $0.entityType = "note" } == ["conflict", "max_attempts_reached"])
        #expect(try await found { $0.responseStatus = 0 } == ["max_attempts_reached"])
        #expect(try await found { $0.errorCode = "upstream_rejected" } == ["upstream_rejected"])
        #expect(try await found { $0.entityType = "contact" } == [])
    }

    @Test(arguments: [1, 2, 3]) func `pages contain every group once`(limit: Int) async throws {
        let (one, _, stranger) = try await Self.tenants()
        for phone in [one, stranger] {
            for (type, code) in [("task", "conflict"), ("task", "upstream_rejected"), ("note", "conflict")] {
                try await phone.pushStuck(1, type, code, 409)
            }
        }
        let groups = try await one.gateway.groups(limit: limit)
        #expect(groups.count == 6)
        #expect(Set(groups.map { "\($0.organization) \($0.summary)" }).count == 6)
        #expect(try await one.gateway.groups(of: one.organization.id, limit: limit).count == 3)
    }

    @Test func `a list is newest first and contains every mutation once`() async throws {
        let (one, two, stranger) = try await Self.tenants()
        var ids: [UUID] = []
        for round in 0..<3 {
            for phone in [one, two, stranger] {
                one.gateway.clock.advance(seconds: Double(round))
                ids.append(try await phone.pushStuck(1)[0].id)
            }
        }
        for limit in [1, 2, 100] {
            let all = try await one.gateway.stuck(limit: limit)
            #expect(Set(all.map(\.id)) == Set(ids) && all.count == ids.count)
            #expect(zip(all, all.dropFirst()).allSatisfy { $0.stuckAt >= $1.stuckAt })
            let mine = try await one.gateway.stuck(of: one.organization.id, limit: limit)
            #expect(mine.count == 6 && mine.allSatisfy { $0.lane.organization == one.organization.id })
            #expect(mine[0].detail == "no upstream_rejected 422" && mine[0].errorCode == "upstream_rejected")
            var filter = FailureFilter()
            filter.user = two.user
            let theirs = try await one.gateway.stuck(filter, of: one.organization.id, limit: 100)
            #expect(theirs.count == 3 && theirs.allSatisfy { $0.lane.user == two.user })
            #expect(try await one.gateway.stuck(filter, of: stranger.organization.id).isEmpty)
        }
    }

    @Test func `a cursor belongs to its filter and its organization`() async throws {
        let (one, _, stranger) = try await Self.tenants()
        try await one.pushStuck(2)
        try await one.pushStuck(2, "note", "conflict", 409)
        let store = one.gateway.store
        let (all, id) = (FailureFilter(), one.organization.id)
        let groups = try #require(try await store.stuckGroups.page(all, organization: id, limit: 1, cursor: nil).next)
        let list = try #require(try await store.stuckList.page(all, organization: id, limit: 1, cursor: nil).next)
        var other = FailureFilter()
        other.statuses = [.failed]
        for (filter, organization) in [(other, Optional(id)), (all, nil), (all, stranger.organization.id)] {
            await #expect(throws: Problem.self) {
                try await store.stuckGroups.page(filter, organization: organization, limit: 1, cursor: groups)
            }
            await #expect(throws: Problem.self) {
                try await store.stuckList.page(filter, organization: organization, limit: 1, cursor: list)
            }
        }
        for text in ["", "g1", "s1.x", groups + "x", "g1.\(UUID().lowercased).0.Task.x.1", list] {
            await #expect(throws: Problem.self, "\(text)") {
                try await store.stuckGroups.page(all, organization: id, limit: 1, cursor: text)
            }
        }
    }

    /// A gateway of an earlier version does not clear `stuck_at`, `error_code` and `error_status` when it settles a
    /// mutation.
    @Test func `omits mutations that an older gateway settled`() async throws {
        let (one, _, _) = try await Self.tenants()
        let entries = try await one.pushStuck(3)
        try await one.execute(
            """
            UPDATE mutations SET status = 'pending', error = NULL WHERE id = '\(entries[0].id)';
            UPDATE mutations SET status = 'discarded', synced_at = now() WHERE id = '\(entries[1].id)'
            """
        )
        #expect(try await one.gateway.groups().map(\.count.count) == [1])
        #expect(try await one.gateway.stuck().map(\.id) == [entries[2].id])
    }

    @Test func `settling removes a mutation from the list`() async throws {
        let (one, _, _) = try await Self.tenants()
        let entries = try await one.pushStuck(2)
        _ = try await one.retry(entries[0].id)
        #expect(try await one.gateway.stuck().map(\.id) == [entries[1].id])
        _ = try await one.discard(entries[1].id)
        #expect(try await one.gateway.groups().isEmpty)
        #expect(try await one.column("concat(stuck_at, error_code, error_status)", of: entries[0].id) == "")
    }
}
