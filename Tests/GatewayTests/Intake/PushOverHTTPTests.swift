import Foundation
import JSONText
import SyncModel
import Testing

@Suite struct PushOverHTTPTests {
    static let resultMembers = [
        "id", "idempotency_key", "sequence_number", "status", "replayed", "revision", "local_id", "server_id",
        "version", "etag",
        "attempt_count", "next_retry_at", "blocked_by", "resolution", "response", "error",
    ]

    @Test func `applies a batch and returns every member of the contract`() async throws {
        let fixture = try await TwoTenantFixture()
        let (contact, activity) = (UUID(), UUID())
        let drafts = [
            fixture.ada.create("contact", local: contact, #"{"name":"Ada"}"#),
            fixture.ada.create("activity", local: activity, #"{"title":"Visit","contact_id":\#(contact.quoted)}"#),
            fixture.ada.create("expense", #"{"amount":12.50,"activity_id":"\#(activity.uuidString)"}"#),
        ]
        let reply = try await fixture.ada.push(drafts, after: 0)
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply.header("content-type") == ["application/json"])
        #expect(reply.header("preference-applied").isEmpty)
        let answer = try #require(reply.json)
        #expect(answer.names == ["accepted_sequence", "feed", "held_by", "results", "id_mappings"])
        #expect(answer["accepted_sequence"]?.int64 == 3)
        #expect(answer["feed"]?.string?.isEmpty == false)
        #expect(reply.results.count == 3)
        for (result, draft) in zip(reply.results, drafts) {
            #expect(result.names == Self.resultMembers)
            for name in ["id", "idempotency_key", "sequence_number", "local_id"] {
                #expect(result.value(at: "/" + name)?.text == draft[name])
            }
            #expect(result["status"]?.string == "succeeded")
            #expect(result["replayed"]?.bool == false)
            #expect(result["revision"]?.int64 == 1)
            #expect(result["server_id"]?.uuid != nil)
            #expect(result["version"]?.int64 == 1)
            #expect(result["attempt_count"]?.int64 != nil)
            #expect(result["next_retry_at"]?.isNull == true)
            #expect(result["blocked_by"]?.text == "[]")
            #expect(result["resolution"]?.isNull == true)
            #expect(result["response"]?.names == ["status", "body"])
            #expect(result.value(at: "/response/status")?.int64 == 201)
            #expect(result["error"]?.isNull == true)
        }
        #expect(reply.mappings.count == 3)
        for mapping in reply.mappings {
            #expect(mapping.names == ["entity_type", "client_id", "server_id", "status"])
            #expect(mapping["status"]?.string == "resolved")
        }
        let documents = try await fixture.bob.get("/v1/changes").changes.map { $0["document"]?.text }
        let ids = reply.results.map { $0["server_id"]?.string ?? "-" }
        #expect(
            documents == [
                #"{"name":"Ada"}"#, #"{"title":"Visit","contact_id":"\#(ids[0])"}"#,
                #"{"amount":12.50,"activity_id":"\#(ids[1])"}"#,
            ]
        )

        let tables = try await fixture.tables()
        let again = try await fixture.ada.push(drafts, after: 0)
        #expect(again.status == 200)
        #expect(again.text == reply.text.replacingOccurrences(of: #""replayed":false"#, with: #""replayed":true"#))
        #expect(try await fixture.tables()["entities"] == tables["entities"])
        #expect(try await fixture.tables()["mutations"] == tables["mutations"])
    }

    @Test func `accepts ids in either case and returns them in lower case`() async throws {
        let fixture = try await TwoTenantFixture()
        let (local, id) = (UUID(), UUID())
        var draft = fixture.ada.create(local: local)
        draft["local_id"] = #""\#(local.uuidString)""#
        draft["id"] = #""\#(id.uuidString)""#
        let reply = try await fixture.ada.push([draft])
        #expect(reply.results.first?["id"]?.string == id.lowercased)
        #expect(reply.results.first?["local_id"]?.string == local.lowercased)
        #expect(try await fixture.ada.get("/v1/mutations/\(id.uuidString)").status == 200)
        draft["local_id"] = local.quoted
        #expect(try await fixture.ada.push([draft]).results.first?["replayed"]?.bool == true)
    }

    @Test func `an empty push returns the watermark`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create(), fixture.ada.create()])
        let reply = try await fixture.ada.push([])
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply.json?["accepted_sequence"]?.int64 == 2)
        #expect(reply.json?["results"]?.text == "[]")
    }

    @Test func `rejects a gap in the sequence with the expected number`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create()])
        let tables = try await fixture.tables()
        let reply = try await fixture.ada.push([fixture.ada.create()], after: 7)
        expectProblem(reply, .sequenceGap)
        #expect(reply.json?["expected"]?.int64 == 1)
        #expect(try await fixture.tables() == tables)
    }

    @Test func `a lenient push rejects invalid entries and accepts the others`() async throws {
        let fixture = try await TwoTenantFixture()
        var bad = fixture.ada.create()
        bad["endpoint"] = #""http://elsewhere/""#
        bad["colour"] = "1"
        let good = fixture.ada.create()
        let reply = try await fixture.ada.push([bad, good], prefer: "handling=lenient")
        #expect(reply.status == 200)
        #expect(reply.header("preference-applied") == ["handling=lenient"])
        #expect(reply.statuses == ["rejected", "succeeded"])
        #expect(reply.json?["accepted_sequence"]?.int64 == 2)
        let rejected = try #require(reply.results.first)
        #expect(rejected.names == Self.resultMembers)
        #expect(rejected.errorCode == "validation_failed")
        #expect(
            Set(rejected["error"]?.errors ?? []) == [
                "/mutations/0/endpoint endpoint_must_be_relative_path", "/mutations/0/colour member_unknown",
            ]
        )
    }

    @Test func `a strict push accepts all entries or none`() async throws {
        let fixture = try await TwoTenantFixture()
        let first = fixture.ada.create()
        _ = try await fixture.ada.push([first])
        let tables = try await fixture.tables()
        var bad = fixture.ada.create()
        bad["max_attempts"] = "0"
        bad["priority"] = "1001"
        let reply = try await fixture.ada.push([first, fixture.ada.create(), bad], prefer: "handling=strict")
        expectProblem(reply, .validationFailed)
        #expect(Set(reply.errors) == ["/mutations/2/max_attempts member_range", "/mutations/2/priority member_range"])
        #expect(reply.header("preference-applied") == ["handling=strict"])
        #expect(try await fixture.tables() == tables)

        let fine = try await fixture.ada.push([first, fixture.ada.create()], prefer: "handling=strict, wait=0")
        #expect(fine.status == 200)
        #expect(fine.header("preference-applied") == ["handling=strict, wait=0"])
        #expect(fine.statuses == ["succeeded", "succeeded"])
    }

    /// A manual conflict halts the lane, so later mutations stay pending.
    @Test func `a push into a halted lane returns 202 after its wait`() async throws {
        let fixture = try await TwoTenantFixture()
        let server = try #require(try await fixture.ada.push([fixture.ada.create()]).results[0]["server_id"]?.string)
        _ = try await fixture.bob.push([fixture.bob.change(server: server)])
        let conflict = try await fixture.ada.push([fixture.ada.change(server: server, base: 1)])
        #expect(conflict.status == 200, "a conflict ends the wait: it needs a settlement")
        #expect(conflict.statuses == ["conflict"])
        #expect(conflict.results.first?["error"]?["current"]?["version"]?.int64 == 2)

        let local = UUID()
        let pending = [
            fixture.ada.create("contact", local: local),
            fixture.ada.create("activity", #"{"contact_id":\#(local.quoted)}"#),
        ]
        let start = ContinuousClock.now
        let reply = try await fixture.ada.push(pending, prefer: "wait=1")
        let took = ContinuousClock.now - start
        #expect(reply.status == 202)
        #expect(reply.statuses == ["pending", "blocked"])
        #expect(reply.header("preference-applied") == ["wait=1"])
        #expect(reply.results.last?["blocked_by"]?.text == "[\(pending[0]["id"] ?? "")]")
        #expect(reply.mappings.isEmpty, "only resolved mappings are returned")
        #expect(took >= .seconds(1) && took < .seconds(60), "\(took)")

        let read = ContinuousClock.now
        let one = try await fixture.ada.get("/v1/mutations/\(pending[0].id)?wait=1")
        #expect(one.json?["status"]?.string == "pending")
        #expect(ContinuousClock.now - read >= .seconds(1))
        let again = try await fixture.ada.push(pending)
        #expect(again.status == 202)
        #expect(again.results.map { $0["replayed"]?.bool } == [true, true])
    }

    @Test func `ignores invalid preferences`() async throws {
        let fixture = try await TwoTenantFixture()
        let reply = try await fixture.ada.push(
            [fixture.ada.create()],
            prefer: #"handling=maybe, wait=-1, respond-async;x="a,b""#
        )
        #expect(reply.status == 200)
        #expect(reply.header("preference-applied").isEmpty)
    }

    @Test func `shortens a wait above the maximum and returns the applied wait`() async throws {
        let fixture = try await TwoTenantFixture()
        let reply = try await fixture.ada.push([fixture.ada.create()], prefer: "wait=100000")
        #expect(reply.header("preference-applied") == ["wait=60"])
    }

    @Test func `applies concurrent pushes of many phones exactly once`() async throws {
        let fixture = try await TwoTenantFixture()
        let organization = fixture.ada.organization
        let statuses = try await withThrowingTaskGroup(of: [String?].self) { group in
            for _ in 0..<16 {
                group.addTask {
                    let worker = try await SyncWorker(fixture.gateway, organization: organization)
                    let drafts = (0..<5).map { _ in worker.create() }
                    async let first = worker.push(drafts)
                    async let second = worker.push(drafts)
                    return try await first.statuses + second.statuses
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(statuses == Array(repeating: "succeeded", count: 160))
        #expect(try await fixture.ada.get("/v1/changes?limit=1000").changes.count == 80)
    }
}
