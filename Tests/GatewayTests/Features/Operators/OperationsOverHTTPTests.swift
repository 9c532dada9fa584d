import Foundation
import GatewaySupport
import HTTPTypes
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import TestSupport
import Testing

/// Bulk operations: preview, start, result, and permissions.
@Suite struct OperationsOverHTTPTests {
    private typealias Failure = FailuresOverHTTPTests.Failure

    @Test func `an operation is previewed and executed, and its result is stored`() async throws {
        let trouble = try await Failure(operates: true)
        let fixture = trouble.fixture
        let all = fixture.admin + "/operations"
        let filter = #""filter":{"status":"failed","error_code":"\#(try await Self.code(trouble))"}"#
        let preview = try await fixture.operate(.POST, all + "/preview", #"{"kind":"discard",\#(filter)}"#)
        #expect(preview.status == 200, "\(preview.text)")
        #expect(preview.json?["count"]?.text == #"{"count":2,"is_more":false}"#)
        #expect(preview.json?["users"]?["count"]?.int64 == 2)
        let sample = preview.json?["sample"]?.elements?.compactMap { $0["id"]?.string }
        #expect(sample == [trouble.failed.id, trouble.bobs.id], "the oldest is first")

        let body =
            #"{"kind":"discard",\#(filter),"dependents":"keep","reason":"They are of last year.","per_second":1000}"#
        let begun = try await fixture.operate(.POST, all, body)
        #expect(begun.status == 202, "\(begun.text)")
        let id = try #require(begun.json?["id"]?.string)
        #expect(begun.json?["state"]?.string == "running" && begun.json?["actor"]?.string == "operator")
        let path = all + "/" + id
        let gateway = try await fixture.operate(.GET, "/admin/me").json?["gateway_id"]?.string
        try await waitUntil("the operation is done") {
            let now = try await trouble.look(path).json
            // the working gateway is listed in /admin/now
            if let worker = now?["gateway_id"]?.string { #expect(worker == gateway) }
            return now?["state"]?.string == "done"
        }
        let done = try await trouble.look(path)
        #expect(done.json?["total"]?.text == #"{"count":2,"is_more":false}"#, "\(done.text)")
        #expect(done.json?["matched"]?.int64 == 2 && done.json?["done"]?.int64 == 2, "\(done.text)")
        #expect(done.json?["reason"]?.string == "They are of last year." && done.json?["ended_at"]?.isNull == false)
        #expect(try await fixture.ada.get("/v1/mutations/\(trouble.failed.id)").json?["status"]?.string == "discarded")
        #expect(try await fixture.bob.get("/v1/mutations/\(trouble.bobs.id)").json?["status"]?.string == "discarded")
        // the conflict and the other tenant's mutations are unchanged
        #expect(try await fixture.ada.get("/v1/mutations/\(trouble.conflict.id)").json?["status"]?.string == "conflict")
        #expect(try await fixture.eve.get("/v1/mutations/\(trouble.eves[0].id)").json?["status"]?.string == "failed")
        let listed = try await trouble.look("/admin/operations?state=done")
        #expect(listed.json?["operations"]?.elements?.compactMap { $0["id"]?.string } == [id])
        #expect(
            try await trouble.look("/admin/operations?state=running").json?["operations"]?.elements?.isEmpty == true
        )
        let other = "/admin/organizations/\(fixture.eve.organization.lowercased)/operations"
        #expect(try await trouble.look(other).json?["operations"]?.elements?.isEmpty == true)
        expectProblem(try await trouble.look(other + "/" + id), .notFound)
        expectProblem(try await fixture.operate(.POST, other + "/" + id + "/cancel"), .notFound)
        let audit = try await fixture.lines("SELECT outcome ->> 'operation' FROM audit WHERE action = 'startOperation'")
        #expect(audit == [id])
        #expect(try await fixture.operate(.POST, path + "/cancel").json?["state"]?.string == "done")
    }

    private static func code(_ trouble: Failure) async throws -> String {
        let reply = try await trouble.look("/admin/mutations?status=failed")
        return try #require(reply.mutations.first?["error_code"]?.string)
    }

    @Test func `resolves a conflict and skips unsettleable mutations with a reason`() async throws {
        let trouble = try await Failure(operates: true)
        let fixture = trouble.fixture
        let all = fixture.admin + "/operations"
        let resolve = try await fixture.operate(
            .POST,
            all,
            #"{"kind":"resolve","filter":{},"strategy":"server_wins","reason":"x"}"#
        )
        // Ada's failure has a dependent, and the request does not specify what happens to it
        let discard = try await fixture.operate(
            .POST,
            all,
            #"{"kind":"discard","filter":{"user_id":"\#(fixture.ada.user)","status":"failed"},"reason":"x"}"#
        )
        for begun in [resolve, discard] {
            let id = try #require(begun.json?["id"]?.string, "\(begun.text)")
            try await waitUntil("done") { try await trouble.look(all + "/" + id).json?["state"]?.string == "done" }
        }
        #expect(
            try await fixture.ada.get("/v1/mutations/\(trouble.conflict.id)").json?["resolution"]?.string
                == "server_wins"
        )
        let left = try await trouble.look(all + "/" + (discard.json?["id"]?.string ?? ""))
        #expect(left.json?["skipped"]?.int64 == 1 && left.json?["done"]?.int64 == 0, "\(left.text)")
        #expect(left.json?["reasons"]?.text == #"[{"code":"validation_failed","count":1}]"#)
        #expect(try await fixture.ada.get("/v1/mutations/\(trouble.failed.id)").json?["status"]?.string == "failed")
    }

    @Test func `names the errors of a request and rejects readers`() async throws {
        let trouble = try await Failure()
        let fixture = trouble.fixture
        let all = fixture.admin + "/operations"
        let wrong: [(body: String, error: String)] = [
            ("{}", "/kind member_required"), (#"{"kind":"x","filter":{}}"#, "/kind member_type"),
            (#"{"kind":"retry","reason":"x"}"#, "/filter member_required"),
            (#"{"kind":"retry","filter":{}}"#, "/reason member_required"),
            (#"{"kind":"retry","filter":{},"reason":""}"#, "/reason member_range"),
            (#"{"kind":"retry","filter":{},"reason":"a\u0007"}"#, "/reason member_range"),
            (#"{"kind":"retry","filter":{"x":1},"reason":"x"}"#, "/filter/x member_unknown"),
            (#"{"kind":"retry","filter":{"status":"sent"},"reason":"x"}"#, "/filter/status member_type"),
            (#"{"kind":"retry","filter":{"ids":[]},"reason":"x"}"#, "/filter/ids member_range"),
            (#"{"kind":"retry","filter":{"ids":["x"]},"reason":"x"}"#, "/filter/ids/0 uuid_format"),
            (#"{"kind":"retry","filter":{},"reason":"x","per_second":1001}"#, "/per_second member_range"),
            (#"{"kind":"retry","filter":{},"reason":"x","dependents":"keep"}"#, "/dependents member_unknown"),
            (#"{"kind":"resolve","filter":{},"reason":"x"}"#, "/strategy member_required"),
            (
                #"{"kind":"resolve","filter":{"status":"failed"},"strategy":"server_wins","reason":"x"}"#,
                "/filter/status member_type"
            ),
        ]
        for (body, error) in wrong {
            let reply = try await fixture.operate(.POST, all, body)
            expectProblem(reply, .invalidRequest, errors: [error])
        }
        let good = Array(#"{"kind":"retry","filter":{},"reason":"x"}"#.utf8)
        for path in [all, all + "/preview", all + "/\(UUID())/cancel"] {
            let reply = try await send(
                .POST,
                fixture.gateway.operations + path,
                token: FailuresOverHTTPTests.reader,
                body: good
            )
            expectProblem(reply, .forbidden)
        }
        expectProblem(
            try await fixture.operate(
                .POST,
                "/admin/organizations/\(UUID())/operations",
                #"{"kind":"retry","filter":{},"reason":"x"}"#
            ),
            .notFound
        )
        expectProblem(try await trouble.look("/admin/operations?state=x"), .invalidRequest)
        // exactly the maximum number of operations
        for _ in 0..<20 {
            #expect(try await fixture.operate(.POST, all, #"{"kind":"retry","filter":{},"reason":"x"}"#).status == 202)
        }
        expectProblem(
            try await fixture.operate(.POST, all, #"{"kind":"retry","filter":{},"reason":"x"}"#),
            .validationFailed
        )
        let first = try await trouble.look(all + "?limit=15")
        #expect(first.json?["operations"]?.elements?.count == 15)
        let rest = try await trouble.look(all + "?limit=15&cursor=" + (first.next ?? ""))
        #expect(rest.json?["operations"]?.elements?.count == 5 && rest.next == nil)
        let id = try #require(first.json?["operations"]?.elements.map(Array.init)?.first?["id"]?.string)
        let cancelled = try await fixture.operate(.POST, all + "/\(id)/cancel")
        #expect(cancelled.json?["state"]?.string == "cancelled" && cancelled.json?["ended_at"]?.isNull == false)
        #expect(try await fixture.operate(.POST, all, #"{"kind":"retry","filter":{},"reason":"x"}"#).status == 202)
    }
}
