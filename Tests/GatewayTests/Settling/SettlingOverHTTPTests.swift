import Foundation
import GatewaySupport
import HTTPTypes
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import Testing

/// `POST /v1/mutations/{id}/retry`, `…/discard`, `…/resolve`, and the operator's actions under `/admin`.
@Suite struct SettlingOverHTTPTests {
    /// Ada's failed update, its dependent, and one of her conflicts.
    private struct Stuck {
        let fixture: TwoTenantFixture
        let failed: Draft
        let waiting: Draft
        let conflict: Draft
        let server: String

        init() async throws {
            fixture = try await TwoTenantFixture(#"{"on_conflict":"continue"}"#)
            let made = try await fixture.ada.push([fixture.ada.create()])
            server = try #require(made.results[0]["server_id"]?.string)
            _ = try await fixture.bob.push([fixture.bob.change(server: server)])
            let unknown = UUID().lowercased
            failed = fixture.ada.change(server: unknown)
            waiting = fixture.ada.change(server: unknown)
            conflict = fixture.ada.change(server: server, base: 1)
            let reply = try await fixture.ada.push([failed, waiting, conflict])
            #expect(reply.statuses == ["failed", "blocked", "conflict"])
        }

        func post(_ draft: Draft, _ move: String, _ body: String? = nil, by worker: SyncWorker? = nil) async throws
            -> Reply
        {
            let worker = worker ?? fixture.ada
            let path = worker.gateway.address + "/v1/mutations/\(draft.id)/\(move)"
            return try await send(.POST, path, token: worker.token, body: body.map { Array($0.utf8) })
        }
    }

    @Test func `each settlement returns the mutation in its new state`() async throws {
        let stuck = try await Stuck()
        let retried = try await stuck.post(stuck.failed, "retry")
        #expect(retried.status == 200)
        #expect(retried.json?.names == ReadingMutationsTests.members)
        #expect(retried.json?["status"]?.string == "pending")
        #expect(retried.text == (try await stuck.fixture.ada.get("/v1/mutations/\(stuck.failed.id)")).text)

        let unsaid = try await stuck.post(stuck.failed, "discard")
        expectProblem(unsaid, .validationFailed, errors: ["/dependents member_required"])
        let discarded = try await stuck.post(stuck.failed, "discard", #"{"dependents":"discard"}"#)
        #expect(discarded.status == 200)
        #expect(discarded.json?.names == ReadingMutationsTests.members + ["discarded"])
        #expect(
            discarded.json?["discarded"]?.elements.map { $0.compactMap(\.string) } == [
                stuck.failed.id, stuck.waiting.id,
            ]
        )

        let resolved = try await stuck.post(stuck.conflict, "resolve", #"{"strategy":"server_wins"}"#)
        #expect(resolved.status == 200)
        #expect(resolved.json?["status"]?.string == "discarded")
        #expect(resolved.json?["resolution"]?.string == "server_wins")
        for move in ["retry", "discard"] {
            let again = try await stuck.post(stuck.conflict, move)
            expectProblem(again, .statusTransitionMustBeValid)
            #expect(again.json?["detail"]?.string?.contains("discarded") == true)
        }
        let lines = try await stuck.fixture.metrics()
        for action in ["retry", "discard", "resolve"] {
            #expect(lines.contains { $0.hasPrefix(#"sluice_mutations_settled_total{action="\#(action)"}"#) })
        }
    }

    @Test func `another user's mutation is answered like a missing mutation`() async throws {
        let stuck = try await Stuck()
        let bodies = [
            "retry": #"{"payload":{}}"#, "discard": #"{"dependents":"discard"}"#,
            "resolve": #"{"strategy":"client_wins","payload":{}}"#,
        ]
        let before = try await stuck.fixture.tables()
        for worker in [stuck.fixture.bob, stuck.fixture.eve] {
            for (move, body) in bodies {
                for draft in [stuck.failed, stuck.conflict, stuck.waiting] {
                    expectProblem(try await stuck.post(draft, move, body, by: worker), .notFound, errors: [])
                }
            }
        }
        for path in ["x/retry", "\(UUID().lowercased)/retry", "\(UUID().lowercased)/discard"] {
            let url = stuck.fixture.gateway.address + "/v1/mutations/" + path
            expectProblem(try await send(.POST, url, token: stuck.fixture.ada.token), .notFound)
        }
        let url = stuck.fixture.gateway.address + "/v1/mutations/\(stuck.failed.id)/retry"
        expectProblem(try await send(.POST, url), .unauthorized)
        expectProblem(try await send(.GET, url, token: stuck.fixture.ada.token), .methodNotAllowed)
        // another user's ids in the content are ordinary data
        let edit = #"{"payload":{"other":"\#(stuck.failed.id)"}}"#
        _ = try await stuck.fixture.bob.get("/v1/mutations")
        #expect(try await stuck.fixture.tables() == before)
        #expect(try await stuck.post(stuck.failed, "retry", edit).json?["status"]?.string == "pending")
    }

    @Test func `names the invalid members of a settlement and changes nothing`() async throws {
        let stuck = try await Stuck()
        let cases: [(String, String?, ProblemCode, [String])] = [
            ("retry", "{", .invalidJSON, []), ("retry", "[]", .invalidRequest, [" member_type"]),
            ("retry", #"{"dependents":"keep"}"#, .invalidRequest, ["/dependents member_unknown"]),
            ("retry", #"{"payload":3}"#, .validationFailed, ["/payload payload_must_be_valid_json"]),
            ("retry", #"{"endpoint":"x"}"#, .validationFailed, ["/endpoint endpoint_must_be_relative_path"]),
            ("retry", #"{"force":true,"force":true}"#, .invalidRequest, ["/force member_duplicate"]),
            ("discard", #"{"dependents":"drop"}"#, .invalidRequest, ["/dependents member_type"]),
            ("discard", #"{"dependents":null}"#, .validationFailed, ["/dependents member_required"]),
            ("resolve", "", .invalidJSON, []), ("resolve", "{}", .invalidRequest, ["/strategy member_required"]),
            ("resolve", #"{"strategy":"manual"}"#, .invalidRequest, ["/strategy member_type"]),
            (
                "resolve", #"{"strategy":"server_wins","payload":{}}"#, .validationFailed, ["/payload member_unknown"]
            ),
        ]
        let before = try await stuck.fixture.tables()
        for (move, body, code, errors) in cases {
            expectProblem(try await stuck.post(stuck.failed, move, body), code, errors: errors)
        }
        let path = "/v1/mutations/\(stuck.failed.id)/retry"
        let plain = try await stuck.fixture.ada.post(path, "{}", headers: [("Content-Type", "text/plain")])
        expectProblem(plain, .unsupportedMediaType)
        let large = #"{"payload":{"a":"\#(String(repeating: "x", count: 300_000))"}}"#
        expectProblem(try await stuck.fixture.ada.post(path, large), .payloadTooLarge)
        expectProblem(try await stuck.fixture.ada.post(path + "?x=1", "{}"), .invalidRequest)
        #expect(try await stuck.fixture.tables() == before)
    }

    @Test func `a chunked body does not count as empty`() async throws {
        let stuck = try await Stuck()
        let connection = try RawConnection(port: stuck.fixture.gateway.port)
        let body = #"{"payload":{"title":"chunked"}}"#
        await connection.send(
            "POST /v1/mutations/\(stuck.failed.id)/retry HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                + "Authorization: Bearer \(stuck.fixture.ada.token)\r\nContent-Type: application/json\r\n"
                + "Transfer-Encoding: chunked\r\n\r\n\(String(body.utf8.count, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
        )
        _ = try await connection.reply()
        let mutation = try await stuck.fixture.ada.get("/v1/mutations/\(stuck.failed.id)").json
        #expect(mutation?["status"]?.string == "pending")
        #expect(mutation?["payload"]?.text == #"{"title":"chunked"}"#)
    }

    @Test func `operators list and settle the mutations of one organization`() async throws {
        let stuck = try await Stuck()
        let fixture = stuck.fixture
        _ = try await fixture.eve.push([fixture.eve.change(server: "none")])
        let all = try await fixture.operate(.GET, fixture.admin + "/mutations")
        #expect(all.mutations.count == 5)
        #expect(Set(all.mutations.compactMap { $0["user_id"]?.uuid }) == [fixture.ada.user, fixture.bob.user])
        #expect(all.mutations.allSatisfy { $0.names == ReadingMutationsTests.members })
        let query = "/mutations?status=failed,conflict&user_id=\(fixture.ada.user.lowercased)"
        let open = try await fixture.operate(.GET, fixture.admin + query)
        #expect(open.mutations.compactMap { $0["id"]?.string } == [stuck.failed.id, stuck.conflict.id])
        // the list is read page by page
        var pages: [String] = []
        var cursor: String?
        repeat {
            let suffix = cursor.map { "&cursor=" + $0 } ?? ""
            let page = try await fixture.operate(.GET, fixture.admin + "/mutations?limit=2" + suffix)
            pages += page.mutations.compactMap { $0["id"]?.string }
            cursor = page.next
        } while cursor != nil && pages.count < 20
        #expect(pages == all.mutations.compactMap { $0["id"]?.string })
        let first = try #require(try await fixture.operate(.GET, fixture.admin + "/mutations?limit=2").next)
        for wrong in ["status=failed&cursor=\(first)", "cursor=x", "cursor=o1.x.0.0", "user_id=1", "x=1"] {
            let reply = try await fixture.operate(.GET, fixture.admin + "/mutations?" + wrong)
            #expect(reply.code == "invalid_request")
        }

        for body in ["{}", #"{"ids":[]}"#, #"{"ids":["x"]}"#, #"{"filter":{"x":1}}"#, #"{"filter":{"status":"sent"}}"#]
        {
            for move in ["retry", "discard"] {
                let reply = try await fixture.operate(.POST, fixture.admin + "/mutations/" + move, body)
                expectProblem(reply, .invalidRequest)
            }
        }
        // another organization's id matches no mutation
        let other = "/admin/organizations/\(fixture.eve.organization.lowercased)/mutations"
        let none = try await fixture.operate(.POST, other + "/retry", #"{"ids":["\#(stuck.failed.id)"]}"#)
        #expect(none.text == #"{"matched":0,"retried":0}"#)
        let retried = try await fixture.operate(
            .POST,
            fixture.admin + "/mutations/retry",
            #"{"filter":{"status":"failed"}}"#
        )
        #expect(retried.text == #"{"matched":1,"retried":1}"#)
        let discarded = try await fixture.operate(
            .POST,
            fixture.admin + "/mutations/discard",
            #"{"ids":["\#(stuck.failed.id)","\#(stuck.conflict.id)"],"dependents":"keep"}"#
        )
        #expect(discarded.text == #"{"matched":2,"discarded":2}"#)
        #expect(try await fixture.ada.get("/v1/mutations/\(stuck.waiting.id)").json?["status"]?.string == "pending")
        let unknown = "/admin/organizations/\(UUID().lowercased)/mutations"
        expectProblem(try await fixture.operate(.GET, unknown), .notFound)
        expectProblem(try await fixture.operate(.POST, unknown + "/retry", #"{"filter":{}}"#), .notFound)
        expectProblem(
            try await send(.GET, fixture.gateway.operations + fixture.admin + "/mutations", token: fixture.ada.token),
            .unauthorized
        )
    }
}
