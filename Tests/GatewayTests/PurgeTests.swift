import Foundation
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// `DELETE /admin/organizations/{id}`
@Suite struct PurgeTests {
    @Test func aPurgeLeavesNothingOfTheTenantAndEverythingOfTheOthers() async throws {
        let scene = try await Scene()
        let eves = try await scene.eve.push([scene.eve.create(), scene.eve.create("note")])
        let others = try await Self.rows(scene, of: scene.eve)
        for worker in [scene.ada, scene.bob] {
            var bad = worker.create()
            bad["priority"] = "-1"
            let pushed = try await worker.push([worker.create("task"), worker.create("note"), bad])
            let server = pushed.results[0]["server_id"]?.string ?? "-"
            _ = try await worker.push([worker.change("delete", server: server)])
        }
        let upstream = #"{"base_url":"http://127.0.0.1:1","credential":{"bearer":"x"}}"#
        #expect(try await scene.operate(.PUT, scene.admin + "/upstream", upstream).status == 201)
        #expect(try await Self.rows(scene, of: scene.ada).values.reduce(0, +) > 15)
        let feed = try #require(try await scene.ada.get("/v1/changes").next)

        let reply = try await scene.operate(.DELETE, scene.admin)
        #expect(reply.status == 204)
        #expect(reply.body.isEmpty)
        for id in [scene.ada.organization, scene.ada.user, scene.bob.user, scene.ada.device].map(\.lowercased) {
            #expect(try await scene.mentions(of: id).filter { $0.value > 0 } == [:])
        }
        #expect(try await Self.rows(scene, of: scene.eve) == others)
        #expect(try await scene.eve.get("/v1/changes").changes.count == 2)
        #expect(eves.statuses == ["succeeded", "succeeded"])

        expectProblem(try await scene.operate(.GET, scene.admin), .notFound, errors: [])
        expectProblem(try await scene.operate(.DELETE, scene.admin), .notFound, errors: [])
        for answer in [try await scene.ada.get("/v1/changes"), try await scene.ada.push([scene.ada.create()])] {
            expectProblem(answer, .organizationUnknown, errors: [])
        }

        // one of the same id is another one
        #expect(try await scene.operate(.PUT, scene.admin, #"{"name":"Again"}"#).status == 201)
        #expect(try await scene.ada.get("/v1/changes").text.hasPrefix(#"{"changes":[]"#))
        #expect(try await scene.ada.get("/v1/mutations").mutations.isEmpty)
        let expired = try await scene.ada.get("/v1/changes?since=\(feed)")
        expectProblem(expired, .cursorExpired)
        #expect(expired.json?["snapshot"]?.string == "/v1/changes")
        let device = try await SyncWorker(scene.gateway, organization: scene.ada.organization, user: scene.ada.user)
        #expect(try await device.push([device.create()]).json?["accepted_sequence"]?.int64 == 1)
    }

    @Test func pushesUnderWayEndInOneWayOrTheOtherAndLeaveNothing() async throws {
        let scene = try await Scene()
        var phones: [SyncWorker] = []
        for _ in 0..<6 { phones.append(try await SyncWorker(scene.gateway, organization: scene.ada.organization)) }
        let replies = try await withThrowingTaskGroup(of: Reply.self) { [phones] group in
            for worker in phones {
                for _ in 0..<5 { group.addTask { try await worker.push([worker.create(), worker.create()]) } }
            }
            group.addTask { try await scene.operate(.DELETE, scene.admin) }
            return try await group.reduce(into: [Reply]()) { $0.append($1) }
        }
        #expect(replies.filter { $0.status == 204 }.count == 1)
        for reply in replies where reply.status != 204 && reply.status != 200 {
            expectProblem(reply, .organizationUnknown, errors: [])
        }
        #expect(try await scene.mentions(of: scene.ada.organization.lowercased).filter { $0.value > 0 } == [:])
    }

    @Test func aSuspendedOrganizationCanBePurged() async throws {
        let scene = try await Scene()
        _ = try await scene.ada.push([scene.ada.create()])
        _ = try await scene.operate(.PUT, scene.admin, #"{"status":"suspended"}"#)
        #expect(try await scene.operate(.DELETE, scene.admin).status == 204)
        #expect(try await scene.mentions(of: scene.ada.organization.lowercased).filter { $0.value > 0 } == [:])
    }

    private static func rows(_ scene: Scene, of worker: SyncWorker) async throws -> [String: Int] {
        try await scene.mentions(of: worker.organization.lowercased)
    }
}
