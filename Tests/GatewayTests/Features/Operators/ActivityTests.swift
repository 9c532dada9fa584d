import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import TestSupport
import Testing

/// The activity of an organization's devices: recent mutations, entities and throughput.
@Suite struct ActivityTests {
    private func ids(_ reply: Reply, _ list: StaticString = "mutations") -> [String] {
        reply.json?[list]?.elements?.compactMap { $0["id"]?.string } ?? []
    }

    private func read(_ fixture: TwoTenantFixture, _ path: String) async throws -> Reply {
        let reply = try await fixture.operate(.GET, fixture.admin + path)
        #expect(reply.status == 200, "\(reply.text)")
        return reply
    }

    @Test func `recent mutations have every status and no content of their users`() async throws {
        let fixture = try await TwoTenantFixture(#"{"on_failure":"continue"}"#)
        let (ada, bob, eve) = (fixture.ada, fixture.bob, fixture.eve)
        let (first, second) = (ada.create("task", #"{"title":"secret"}"#), bob.create("note"))
        let made = try await ada.push([first])
        let server = try #require(made.results.first?["server_id"]?.string)
        fixture.gateway.clock.advance(seconds: 1)
        _ = try await bob.push([second])
        fixture.gateway.clock.advance(seconds: 1)
        let lost = ada.change(server: UUID().lowercased)
        #expect(try await ada.push([lost]).statuses == ["failed"])
        #expect(try await eve.push([eve.create()]).statuses == ["succeeded"])

        let all = try await read(fixture, "/mutations/recent")
        #expect(ids(all) == [lost.id, second.id, first.id])
        #expect(!all.text.contains("secret"))
        #expect(Set(ids(all, "users")) == [ada.user.lowercased, bob.user.lowercased])
        let last = all.json?.value(at: "/mutations/2")
        #expect(
            last?.names == [
                "organization_id", "user_id", "id", "device_id", "sequence_number", "status", "operation",
                "entity_type", "local_id", "server_id", "version", "response_status", "error_code", "attempt_count",
                "accepted_at", "changed_at",
            ]
        )
        #expect(last?["server_id"]?.string == server && last?["version"]?.int64 == 1)
        #expect(last?["device_id"]?.string == ada.device.lowercased && last?["error_code"]?.isNull == true)
        #expect(all.json?.value(at: "/mutations/0/error_code")?.string == "upstream_rejected")
        for (query, expected) in [
            ("status=succeeded", [second.id, first.id]), ("status=failed,discarded", [lost.id]),
            ("user_id=\(ada.user)", [lost.id, first.id]), ("device_id=\(bob.device)", [second.id]),
            ("entity_type=note", [second.id]), ("entity_type=task&entity_id=\(server)", [first.id]),
            ("mutation=\(first.id)", [first.id]), ("user_id=\(bob.user)&mutation=\(first.id)", []),
            ("user_id=\(eve.user)", []), ("status=pending", []),
        ] {
            #expect(try await ids(read(fixture, "/mutations/recent?\(query)")) == expected, "\(query)")
        }
        let page = try await read(fixture, "/mutations/recent?limit=2")
        let next = try #require(page.next)
        #expect(try await ids(read(fixture, "/mutations/recent?limit=2&cursor=\(next)")) == [first.id])
        for query in [
            "status=rejected", "limit=0", "cursor=x", "status=failed&cursor=\(next)", "until=today", "entity_id=1",
            "user_id=1", "payload=true",
        ] {
            let reply = try await fixture.operate(.GET, fixture.admin + "/mutations/recent?\(query)")
            expectProblem(reply, .invalidRequest)
        }
        let nowhere = "/admin/organizations/\(UUID().lowercased)/mutations/recent"
        expectProblem(try await fixture.operate(.GET, nowhere), .notFound, errors: [])
    }

    @Test func `entities are listed as the feed has them, with the document only on request`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let (ada, bob, eve) = (fixture.ada, fixture.bob, fixture.eve)
        let made = try await ada.push([ada.create("task", #"{"title":"secret"}"#), ada.create("note")])
        let servers = made.results.compactMap { $0["server_id"]?.string }
        #expect(servers.count == 2)
        fixture.gateway.clock.advance(seconds: 1)
        #expect(try await bob.push([bob.change(server: servers[0])]).statuses == ["succeeded"])
        #expect(try await ada.push([ada.change("delete", "note", server: servers[1])]).statuses == ["succeeded"])
        _ = try await eve.push([eve.create()])

        let all = try await read(fixture, "/entities")
        #expect(ids(all, "entities") == [servers[1], servers[0]], "the latest change is first")
        let (note, task) = (all.json?.value(at: "/entities/0"), all.json?.value(at: "/entities/1"))
        #expect(note?["deleted"]?.bool == true && note?["version"]?.int64 == 2)
        #expect(task?["owner_id"]?.string == ada.user.lowercased && task?["version"]?.int64 == 2)
        #expect(
            task?["updated_by"]?.string == bob.user.lowercased && task?["device_id"]?.string == bob.device.lowercased
        )
        #expect(task?["document"] == nil)
        #expect(Set(ids(all, "users")) == [ada.user.lowercased, bob.user.lowercased])
        let page = try await read(fixture, "/entities?limit=1")
        let next = try #require(page.next)
        #expect(try await ids(read(fixture, "/entities?limit=1&cursor=\(next)"), "entities") == [servers[0]])

        // entities of one type are listed by id, in descending order
        let more = try await ada.push((0..<3).map { _ in ada.create() }).results.compactMap { $0["server_id"]?.string }
        let tasks = ([servers[0]] + more).sorted { $1.utf8.lexicographicallyPrecedes($0.utf8) }
        var (found, cursor): ([String], String?) = ([], "")
        while let place = cursor {
            let reply = try await read(fixture, "/entities?entity_type=task&limit=3&cursor=\(place)")
            found += ids(reply, "entities")
            cursor = reply.next
        }
        #expect(found == tasks)

        let one = "/entities?entity_type=task&entity_id=\(servers[0])"
        #expect(try await read(fixture, one).json?.value(at: "/entities/0/document") == nil)
        let reader = try await fixture.call(.GET, fixture.admin + one + "&payload=true", as: Operators.reader)
        expectProblem(reader, .forbidden, errors: [])
        #expect(try await fixture.audit("?action=lookAtPayload").isEmpty)
        let shown = try await fixture.call(.GET, fixture.admin + one + "&payload=true", as: Operators.settler)
        #expect(shown.json?.value(at: "/entities/0/document")?.text.contains("title") == true, "\(shown.text)")
        let act = try await fixture.audit("?action=lookAtPayload")[0]
        #expect(act["actor"]?.string == "sam" && act["target"]?["user"]?.string == ada.user.lowercased)
        #expect(act["target"]?["entity_id"]?.string == servers[0])
        let unknown = "/entities?entity_type=task&entity_id=\(UUID())&payload=true"
        #expect(try await ids(read(fixture, unknown), "entities").isEmpty)
        #expect(try await fixture.audit("?action=lookAtPayload").count == 1)
        let eves = "/admin/organizations/\(eve.organization.lowercased)"
        #expect(try await ids(fixture.operate(.GET, eves + one), "entities").isEmpty)
        for query in [
            "payload=true", "entity_id=1", "entity_type=No", "cursor=x", "cursor=\(next)&entity_type=task", "limit=0",
        ] {
            let reply = try await fixture.operate(.GET, fixture.admin + "/entities?\(query)")
            expectProblem(reply, .invalidRequest)
        }
        let nowhere = "/admin/organizations/\(UUID().lowercased)/entities"
        expectProblem(try await fixture.operate(.GET, nowhere), .notFound, errors: [])
    }

    @Test func `entity types show the number of their entities on request`() async throws {
        let fixture = try await TwoTenantFixture()
        let (ada, eve) = (fixture.ada, fixture.eve)
        let made = try await ada.push([ada.create(), ada.create(), ada.create("note")])
        let server = try #require(made.results.first?["server_id"]?.string)
        _ = try await ada.push([ada.change("delete", server: server)])
        _ = try await eve.push([eve.create()])
        let counted = try await read(fixture, "/entity-types?counts=true")
        let types = counted.json?["entity_types"]?.elements.map(Array.init) ?? []
        #expect(types.map { $0["name"]?.string } == ["note", "task"])
        #expect(types.map { $0["entities"]?.int64 } == [1, 1])
        #expect(types.allSatisfy { $0["more_entities"]?.bool == false })
        #expect(try await !read(fixture, "/entity-types").text.contains("more_entities"))
        let page = try await read(fixture, "/entity-types?counts=true&limit=1")
        #expect(page.next == "note")
        expectProblem(try await fixture.operate(.GET, fixture.admin + "/entity-types?counts=1"), .invalidRequest)
    }

    @Test func `completed mutations are counted over the last hour and the last day`() async throws {
        let fixture = try await TwoTenantFixture()
        let (ada, eve) = (fixture.ada, fixture.eve)
        func counts(_ period: String) async throws -> [Int64] {
            let reply = try await read(fixture, "/throughput")
            #expect(reply.json?.value(at: "/\(period)/is_more")?.bool == false)
            return reply.json?.value(at: "/\(period)/completed")?.elements?.compactMap(\.int64) ?? []
        }
        #expect(try await counts("hour") == Array(repeating: 0, count: 12))
        _ = try await ada.push((0..<3).map { _ in ada.create() })
        _ = try await eve.push([eve.create()])
        // a failed mutation is not completed
        #expect(try await ada.push([ada.change(server: UUID().lowercased)]).statuses == ["failed"])
        #expect(try await counts("hour") == Array(repeating: 0, count: 11) + [3])
        #expect(try await counts("day") == Array(repeating: 0, count: 23) + [3])
        fixture.gateway.clock.advance(seconds: 2 * 3_600)
        #expect(try await counts("hour").allSatisfy { $0 == 0 })
        #expect(try await counts("day")[21...] == [3, 0, 0])
        let nowhere = "/admin/organizations/\(UUID().lowercased)/throughput"
        expectProblem(try await fixture.operate(.GET, nowhere), .notFound, errors: [])
    }
}
