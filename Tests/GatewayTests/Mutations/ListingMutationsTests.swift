import Foundation
import JSONText
import SyncModel
import Testing

/// `GET /v1/mutations`
@Suite struct ListingMutationsTests {
    /// Ada's two devices with mutations of two types, one of them failed.
    private struct Lists {
        let fixture: TwoTenantFixture
        let tablet: SyncWorker
        let tasks: [Draft]
        let notes: [Draft]
        let failed: Draft

        init() async throws {
            fixture = try await TwoTenantFixture()
            let ada = fixture.ada
            tablet = try await SyncWorker(fixture.gateway, organization: ada.organization, user: ada.user)
            tasks = (0..<3).map { _ in ada.create("task") }
            failed = ada.change("update", "task", server: UUID().lowercased)
            notes = [tablet.create("note"), tablet.create("note")]
            _ = try await ada.push(tasks + [failed])
            _ = try await tablet.push(notes)
            _ = try await fixture.bob.push([fixture.bob.create("task")])
        }

        var all: [String] { (tasks + [failed] + notes).map(\.id) }

        func ids(_ query: String) async throws -> [String] {
            let reply = try await fixture.ada.get("/v1/mutations" + query)
            #expect(reply.status == 200, "\(reply.text)")
            #expect(reply.json?.names == ["mutations", "next"])
            return reply.mutations.compactMap { $0["id"]?.string }
        }
    }

    @Test func `lists a user's mutations of all devices in lane order`() async throws {
        let lists = try await Lists()
        let reply = try await lists.fixture.ada.get("/v1/mutations")
        #expect(reply.mutations.compactMap { $0["id"]?.string } == lists.all)
        #expect(reply.mutations.allSatisfy { $0.names == ReadingMutationsTests.members })
        #expect(reply.json?["next"]?.isNull == true)
        #expect(try await lists.fixture.eve.get("/v1/mutations").text == #"{"mutations":[],"next":null}"#)
    }

    @Test func `filters narrow the list and combine`() async throws {
        let lists = try await Lists()
        let succeeded = (lists.tasks + lists.notes).map(\.id)
        let device = lists.fixture.ada.device
        #expect(try await lists.ids("?status=failed") == [lists.failed.id])
        #expect(try await lists.ids("?status=succeeded") == succeeded)
        #expect(try await lists.ids("?status=failed,succeeded") == lists.all)
        #expect(try await lists.ids("?status=failed&status=succeeded") == lists.all)
        #expect(try await lists.ids("?status=pending,blocked,in_flight,conflict,discarded") == [])
        #expect(try await lists.ids("?entity_type=note") == lists.notes.map(\.id))
        #expect(try await lists.ids("?entity_type=unheard-of") == [])
        #expect(try await lists.ids("?device_id=\(lists.tablet.device.lowercased)") == lists.notes.map(\.id))
        #expect(try await lists.ids("?device_id=\(lists.tablet.device.uuidString)") == lists.notes.map(\.id))
        #expect(try await lists.ids("?device_id=\(lists.fixture.bob.device.lowercased)") == [])
        #expect(
            try await lists.ids("?device_id=\(device.lowercased)&entity_type=task&status=succeeded")
                == lists.tasks.map(\.id)
        )
        #expect(try await lists.ids("?entity_type=note&device_id=\(device.lowercased)") == [])
        #expect(try await lists.ids("?status=&entity_type=&device_id=&cursor=&limit=") == lists.all)
        #expect(try await lists.ids("?stat%75s=%66ailed") == [lists.failed.id])
    }

    @Test(arguments: [1, 2, 4, 5, 6, 1_000])
    func `pages contain every mutation exactly once`(limit: Int) async throws {
        let lists = try await Lists()
        var pages: [[String]] = []
        var cursor: String?
        repeat {
            let suffix = cursor.map { "&cursor=" + $0 } ?? ""
            let reply = try await lists.fixture.ada.get("/v1/mutations?limit=\(limit)\(suffix)")
            #expect(reply.status == 200, "\(reply.text)")
            pages.append(reply.mutations.compactMap { $0["id"]?.string })
            cursor = reply.next
        } while cursor != nil && pages.count < 20
        #expect(pages.flatMap { $0 } == lists.all)
        #expect(pages.dropLast().allSatisfy { $0.count == limit })
        #expect(pages.last?.isEmpty == false, "no page is empty")
    }

    @Test func `a mutation accepted between two pages appears on a later page`() async throws {
        let lists = try await Lists()
        let first = try await lists.fixture.ada.get("/v1/mutations?limit=5")
        let late = lists.fixture.ada.create()
        _ = try await lists.fixture.ada.push([late])
        let next = try #require(first.next)
        #expect(try await lists.ids("?cursor=\(next)") == [lists.notes[1].id, late.id])
    }

    @Test func `a cursor is bound to its filter`() async throws {
        let lists = try await Lists()
        let cursor = try #require(try await lists.fixture.ada.get("/v1/mutations?limit=1&entity_type=task").next)
        #expect(try await lists.ids("?limit=2&entity_type=task&cursor=\(cursor)") == lists.tasks[1...].map(\.id))
        for other in ["", "entity_type=note&", "entity_type=task&status=failed&"] {
            let reply = try await lists.fixture.ada.get("/v1/mutations?\(other)cursor=\(cursor)")
            expectProblem(reply, .invalidRequest, errors: [" parameter_invalid"])
        }
    }

    @Test func `rejects invalid parameters of the mutations list`() async throws {
        let fixture = try await TwoTenantFixture()
        for query in [
            "limit=0", "limit=1001", "limit=-1", "limit=x", "limit=1.0", "limit=%2B1", "limit=1&limit=1",
            "limit=18446744073709551617", "cursor=x", "cursor=m1--", "cursor=m1-0", "cursor=m1-zzzzzzzzzzzzzzzzzz-0",
            "cursor=m1--1-0", "cursor=%00", "cursor=%F0%9F%92%A9", "cursor=f1-1-0-0-0", "status=rejected",
            "status=Failed", "status=failed,,nonsense", "device_id=1", "device_id=x", "entity_type=Task",
            "entity_type=a%20b", "entity_type=%C3%A9", "entity_type=task,note", "entity_type=task&entity_type=task",
        ] {
            let reply = try await fixture.ada.get("/v1/mutations?" + query)
            expectProblem(reply, .invalidRequest, errors: [" parameter_invalid"])
            let name = query.prefix { $0 != "=" }
            #expect(reply.json?["detail"]?.string?.contains(name) == true, "\(reply.text)")
        }
    }

    @Test func `names unknown parameters`() async throws {
        let fixture = try await TwoTenantFixture()
        for query in ["Status=failed", "statuses=failed", "wait=1", "x", "=", "a%00=1", "since=1", "limit%20=1"] {
            let reply = try await fixture.ada.get("/v1/mutations?" + query)
            expectProblem(reply, .invalidRequest, errors: [" parameter_unknown"])
            #expect(reply.json?["detail"]?.string?.contains("cursor, device_id, entity_type, limit, status") == true)
        }
    }
}
