import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import Testing

/// `/admin/organizations`
@Suite struct AdminOrganizationsTests {
    private static let settings = [
        "provisioning": "on_first_push", "entity_types": "open", "on_failure": "continue", "on_conflict": "halt",
        "conflict_resolution": "manual",
    ]

    @Test func `creates, updates, returns and lists an organization`() async throws {
        let fixture = try await TwoTenantFixture()
        let id = UUID()
        let path = "/admin/organizations/\(id.uuidString)"
        expectProblem(try await fixture.operate(.GET, path), .notFound, errors: [])
        let made = try await fixture.operate(.PUT, path, #"{"name":"Fjord ASA","settings":{"on_conflict":"continue"}}"#)
        #expect(made.status == 201)
        let organization = try #require(made.json)
        #expect(organization.names == ["id", "name", "status", "settings", "external_ids", "created_at", "updated_at"])
        #expect(organization["id"]?.string == id.lowercased)
        #expect(organization["name"]?.string == "Fjord ASA")
        #expect(organization["status"]?.string == "active")
        for (name, value) in Self.settings {
            let expected = name == "on_conflict" ? "continue" : value
            #expect(organization.value(at: "/settings/" + name)?.string == expected, "\(name)")
        }
        #expect(organization.value(at: "/settings/stale_after_days")?.int64 == 14)
        #expect(organization["created_at"]?.string == fixture.gateway.clock.now.rfc3339)
        #expect(try await fixture.operate(.GET, path).text == made.text)

        let madeAt = fixture.gateway.clock.now.rfc3339
        fixture.gateway.clock.advance(seconds: 1)
        let changed = try await fixture.operate(.PUT, path, #"{"settings":{"stale_after_days":3,"on_failure":"halt"}}"#)
        #expect(changed.status == 200)
        #expect(changed.json?["name"]?.string == "Fjord ASA", "absent members keep their values")
        #expect(changed.json?.value(at: "/settings/on_conflict")?.string == "continue")
        #expect(changed.json?.value(at: "/settings/on_failure")?.string == "halt")
        #expect(changed.json?.value(at: "/settings/stale_after_days")?.int64 == 3)
        #expect(changed.json?["created_at"]?.string == madeAt)
        #expect(changed.json?["updated_at"]?.string == fixture.gateway.clock.now.rfc3339)
        let reset = try await fixture.operate(.PUT, path, #"{"settings":{"stale_after_days":null}}"#)
        #expect(reset.json?.value(at: "/settings/stale_after_days")?.int64 == 14, "null restores the default")

        let list = try await fixture.operate(.GET, "/admin/organizations")
        #expect(list.json?.names == ["organizations", "next"])
        #expect(list.json?["organizations"]?.elements?.contains { $0.text == reset.text } == true)
    }

    @Test func `pages the list of organizations`() async throws {
        let fixture = try await TwoTenantFixture()
        for _ in 0..<3 { _ = try await fixture.operate(.PUT, "/admin/organizations/\(UUID().lowercased)", "{}") }
        let all = try await Self.ids(fixture, "").ids
        #expect(all.count == 5)
        #expect(all == all.sorted())
        var pages: [[String]] = []
        var cursor: String?
        repeat {
            let page = try await Self.ids(fixture, "?limit=2" + (cursor.map { "&cursor=" + $0 } ?? ""))
            pages.append(page.ids)
            cursor = page.next
        } while cursor != nil && pages.count < 9
        #expect(pages.map(\.count) == [2, 2, 1])
        #expect(pages.flatMap { $0 } == all)
        for query in ["limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=a&cursor=b"] {
            let reply = try await fixture.operate(.GET, "/admin/organizations?" + query)
            expectProblem(reply, .invalidRequest, errors: [" parameter_invalid"])
        }
        for path in ["/admin/organizations?status=active", fixture.admin + "?x=1"] {
            expectProblem(try await fixture.operate(.GET, path), .invalidRequest, errors: [" parameter_unknown"])
        }
    }

    private static func ids(_ fixture: TwoTenantFixture, _ query: String) async throws -> (ids: [String], next: String?)
    {
        let reply = try await fixture.operate(.GET, "/admin/organizations" + query)
        #expect(reply.status == 200)
        let ids = reply.json?["organizations"]?.elements?.compactMap { $0["id"]?.string }
        return (ids ?? [], reply.next)
    }

    @Test func `names the invalid members of an organization's body and changes nothing`() async throws {
        let fixture = try await TwoTenantFixture()
        let long = String(repeating: "x", count: 201)
        let cases: [(String, ProblemCode, [String])] = [
            ("", .invalidJSON, []), ("{", .invalidJSON, []), ("[]", .invalidRequest, [" member_type"]),
            ("null", .invalidRequest, [" member_type"]),
            (#"{"name":"a","name":"b"}"#, .invalidRequest, ["/name member_duplicate"]),
            (#"{"name":"a\u0000"}"#, .invalidRequest, ["/name member_type"]),
            (#"{"name":"\ud800"}"#, .invalidRequest, ["/name member_type"]),
            (
                #"{"settings":{"on_failure":"halt","on_failure":"halt"}}"#, .invalidRequest,
                ["/settings/on_failure member_duplicate"]
            ),
            (#"{"name":""}"#, .validationFailed, ["/name member_range"]),
            (#"{"name":"\#(long)"}"#, .validationFailed, ["/name member_range"]),
            (#"{"name":1}"#, .validationFailed, ["/name member_range"]),
            (#"{"name":null}"#, .validationFailed, ["/name member_range"]),
            (#"{"status":"purging"}"#, .validationFailed, ["/status member_range"]),
            (#"{"status":"asleep"}"#, .validationFailed, ["/status member_range"]),
            (#"{"id":"x"}"#, .validationFailed, ["/id member_unknown"]),
            (#"{"a/b":1}"#, .validationFailed, ["/a~1b member_unknown"]),
            (#"{"settings":null}"#, .validationFailed, ["/settings member_type"]),
            (#"{"settings":[]}"#, .validationFailed, ["/settings member_type"]),
            (#"{"settings":{"colour":1}}"#, .validationFailed, ["/settings/colour member_unknown"]),
            (#"{"settings":{"provisioning":"never"}}"#, .validationFailed, ["/settings/provisioning member_range"]),
            (#"{"settings":{"entity_types":true}}"#, .validationFailed, ["/settings/entity_types member_range"]),
            (#"{"settings":{"stale_after_days":0}}"#, .validationFailed, ["/settings/stale_after_days member_range"]),
            (
                #"{"settings":{"conflict_resolution":"merge"},"name":""}"#, .validationFailed,
                ["/settings/conflict_resolution member_range", "/name member_range"]
            ),
        ]
        try await fixture.whileNothingChanges {
            for path in [fixture.admin, "/admin/organizations/\(UUID().lowercased)"] {
                for (body, code, errors) in cases {
                    expectProblem(try await fixture.operate(.PUT, path, body), code, errors: errors)
                }
                let headers = [("Content-Type", "text/plain")]
                expectProblem(try await fixture.operate(.PUT, path, "{}", headers: headers), .unsupportedMediaType)
                let large = #"{"name":"x"\#(String(repeating: " ", count: 65_536))}"#
                expectProblem(try await fixture.operate(.PUT, path, large), .payloadTooLarge)
            }
            for id in ["x", "1", "%20", UUID().lowercased + "0"] {
                for method: HTTPMethod in [.GET, .PUT, .DELETE] {
                    let body = method == .PUT ? "{}" : nil
                    let reply = try await fixture.operate(method, "/admin/organizations/" + id, body)
                    expectProblem(reply, .notFound, errors: [])
                }
            }
        }
    }

    @Test func `admits only the operator to the admin API`() async throws {
        let fixture = try await TwoTenantFixture()
        let paths = [
            "/admin/organizations", fixture.admin, fixture.admin + "/users/\(fixture.ada.user.lowercased)",
            fixture.admin + "/entity-types/task", fixture.admin + "/upstream", fixture.admin + "/users",
        ]
        let lists = ["/admin/organizations", fixture.admin + "/users"]
        let wrong = [
            nil, "Bearer", "Basic " + LiveGateway.operatorToken, LiveGateway.operatorToken, "Bearer x",
            "Bearer \(LiveGateway.operatorToken)x", "Bearer \(LiveGateway.operatorToken.dropLast())",
            "Bearer " + LiveGateway.operatorToken.uppercased(), "Bearer " + fixture.ada.token,
        ]
        try await fixture.whileNothingChanges {
            for path in paths {
                for method: HTTPMethod in lists.contains(path) ? [.GET, .POST] : [.GET, .PUT, .DELETE] {
                    for value in wrong {
                        let reply = try await send(
                            method,
                            fixture.gateway.operations + path,
                            headers: value.map { [("Authorization", $0)] } ?? [],
                            body: [.PUT, .POST].contains(method) ? Array("{}".utf8) : nil
                        )
                        // a path does not support every method
                        if reply.status == 405 { continue }
                        expectProblem(reply, .unauthorized, errors: [])
                        let challenge = reply.header("www-authenticate")
                        #expect(challenge.count == 1 && challenge[0].hasPrefix("Bearer"))
                    }
                }
            }
        }
        let lower = [("Authorization", "bearer " + LiveGateway.operatorToken)]
        #expect(try await send(.GET, fixture.gateway.operations + fixture.admin, headers: lower).status == 200)
    }
}
