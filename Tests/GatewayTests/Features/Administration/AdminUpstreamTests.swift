import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `/admin/organizations/{id}/upstream`
@Suite struct AdminUpstreamTests {
    private static let base = "http://127.0.0.1:1"

    @Test func `creates, updates, returns and deletes an upstream`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/upstream"
        expectProblem(try await fixture.operate(.GET, path), .notFound, errors: [])
        expectProblem(try await fixture.operate(.DELETE, path), .notFound, errors: [])
        let made = try await fixture.operate(.PUT, path, #"{"base_url":"HTTPS://API.example.com/v1/"}"#)
        #expect(made.status == 201)
        let now = fixture.gateway.clock.now.rfc3339
        let defaults =
            #"{"base_url":"https://api.example.com/v1","credential":null,"timeout_seconds":30,"max_concurrency":16,"#
            + #""id_pointer":"/id","headers":{},"allowed_headers":[],"erase_endpoint":null,"#
            + #""send_weak_etags":false,"outcomes":[],"requests_per_second":null,"batch":null,"status":"active","#
            + #""paused_until":null,"updated_at":"\#(now)"}"#
        #expect(made.text == defaults)
        #expect(try await fixture.operate(.GET, path).text == defaults)

        fixture.gateway.clock.advance(seconds: 1)
        let body = #"""
            {"base_url":"http://[::1]:9000","credential":{"bearer":"t0ken"},"timeout_seconds":90,
             "max_concurrency":1000,"id_pointer":"/data/a~1b/0","headers":{"X-Tenant":"acme","accept-language":"nb"},
             "allowed_headers":["X-App-Version","x-app"],"send_weak_etags":true}
            """#
        let changed = try await fixture.operate(.PUT, path, body)
        #expect(changed.status == 200)
        let then = fixture.gateway.clock.now.rfc3339
        let expected =
            #"{"base_url":"http://[::1]:9000","credential":{"bearer":true},"timeout_seconds":90,"#
            + #""max_concurrency":1000,"id_pointer":"/data/a~1b/0","#
            + #""headers":{"accept-language":"nb","x-tenant":"acme"},"#
            + #""allowed_headers":["x-app","x-app-version"],"erase_endpoint":null,"#
            + #""send_weak_etags":true,"outcomes":[],"requests_per_second":null,"batch":null,"status":"active","#
            + #""paused_until":null,"updated_at":"\#(then)"}"#
        #expect(changed.text == expected)
        #expect(try await fixture.operate(.PUT, path, "{}").text == expected, "absent members keep their values")
        let headers = try await fixture.operate(.PUT, path, #"{"headers":{"a":"b"}}"#)
        #expect(headers.json?["headers"]?.text == #"{"a":"b"}"#, "headers are replaced as a whole")
        let reset = try await fixture.operate(
            .PUT,
            path,
            #"{"credential":null,"timeout_seconds":null,"max_concurrency":null,"id_pointer":null,"headers":null,"#
                + #""allowed_headers":null,"send_weak_etags":null}"#
        )
        #expect(reset.text.hasPrefix(#"{"base_url":"http://[::1]:9000","credential":null,"timeout_seconds":30,"#))
        #expect(reset.text.contains(#""max_concurrency":16,"id_pointer":"/id","headers":{},"allowed_headers":[],"#))
        #expect(reset.json?["send_weak_etags"]?.bool == false)
        let wrong = try await fixture.operate(.PUT, path, #"{"send_weak_etags":"yes"}"#)
        expectProblem(wrong, .validationFailed, errors: ["/send_weak_etags member_type"])

        let gone = try await fixture.operate(.DELETE, path)
        #expect(gone.status == 204)
        #expect(gone.body.isEmpty)
        expectProblem(try await fixture.operate(.GET, path), .notFound, errors: [])
        let required = try await fixture.operate(.PUT, path, #"{"timeout_seconds":5}"#)
        expectProblem(required, .validationFailed, errors: ["/base_url member_required"])
    }

    @Test func `a credential is kept until it is replaced and its secret is never returned`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/upstream"
        let cases = [
            (#"{"bearer":"s3cret-value"}"#, #"{"bearer":true}"#),
            (#"{"header":"X-Api-Key","value":"s3cret-value"}"#, #"{"header":"X-Api-Key"}"#),
            (#"{"header":"Authorization","value":"Basic s3cret-value"}"#, #"{"header":"Authorization"}"#),
        ]
        for (sent, shown) in cases {
            let put = try await fixture.operate(.PUT, path, #"{"base_url":"\#(Self.base)","credential":\#(sent)}"#)
            let kept = try await fixture.operate(.PUT, path, #"{"timeout_seconds":3}"#)
            for reply in [put, kept, try await fixture.operate(.GET, path)] {
                #expect(reply.json?["credential"]?.text == shown)
                #expect(!reply.text.contains("s3cret"))
            }
            #expect(try await fixture.mentions(of: "s3cret-value")["upstreams"] == 1, "the secret is stored")
            let back = try await fixture.operate(.PUT, path, #"{"credential":\#(shown)}"#)
            #expect(back.status == 422, "a credential without its secret is refused")
        }
        let organization = try await fixture.operate(.GET, fixture.admin)
        let list = try await fixture.operate(.GET, "/admin/organizations")
        for reply in [organization, list] { #expect(!reply.text.contains("s3cret")) }
        #expect(try await !fixture.metrics().contains { $0.contains("s3cret") })
        #expect(try await fixture.operate(.PUT, path, #"{"credential":null}"#).status == 200)
        #expect(try await fixture.mentions(of: "s3cret").values.allSatisfy { $0 == 0 })
    }

    @Test func `no log line contains a secret`() async throws {
        let fixture = try await TwoTenantFixture()
        let gateway = try await GatewayProcess.start(
            database: fixture.gateway.database.uri,
            settings: ["SLUICE_LOG_LEVEL": "trace"]
        )
        let url = "\(gateway.operations)\(fixture.admin)/upstream"
        let good = #"{"base_url":"\#(Self.base)","credential":{"header":"X-Key","value":"s3cret-value"}}"#
        let bad = [
            #"{"base_url":"x","credential":{"bearer":"s3cret-value","s3cret":1}}"#,
            #"{"credential":{"header":"X-Key\u000a","value":"s3cret-value"}}"#,
            #"{"credential":{"bearer":"s3cret-value\u000a"}}"#, #"{"credential":"s3cret-value"#,
        ]
        for body in [good] + bad {
            let reply = try await send(
                .PUT,
                url,
                token: GatewayProcess.operatorToken,
                body: Array(body.utf8)
            )
            #expect(reply.status == (body == good ? 201 : body == bad[3] ? 400 : 422), "\(reply.text)")
            #expect(!reply.text.contains("s3cret-value"))
        }
        // the database rejects the row, and the log reports it
        try await fixture.execute("ALTER TABLE upstreams ADD CHECK (timeout_seconds <> 7)")
        let body = #"{"timeout_seconds":7,"credential":{"bearer":"s3cret-value"}}"#
        let refused = try await send(.PUT, url, token: GatewayProcess.operatorToken, body: Array(body.utf8))
        expectProblem(refused, .internalError, errors: [])
        #expect(try await gateway.terminate() == 0)
        #expect(gateway.log.contains("upstreams_put"))
        #expect(!gateway.log.contains("s3cret-value"))
    }

    @Test func `the credential signed requires a signing key`() async throws {
        let without = try await TwoTenantFixture()
        let body = #"{"base_url":"\#(Self.base)","credential":"signed"}"#
        try await without.whileNothingChanges {
            let reply = try await without.operate(.PUT, without.admin + "/upstream", body)
            expectProblem(reply, .validationFailed, errors: ["/credential member_range"])
            #expect(reply.text.contains("SLUICE_SIGNING_KEY_FILE"))
        }
        let with = try await TwoTenantFixture { $0.canSign = true }
        let made = try await with.operate(.PUT, with.admin + "/upstream", body)
        #expect(made.status == 201)
        #expect(made.json?["credential"]?.string == "signed")
    }

    @Test func `the time-out must be shorter than the lease`() async throws {
        let fixture = try await TwoTenantFixture { $0.leaseSeconds = 20 }
        let path = fixture.admin + "/upstream"
        let long = try await fixture.operate(.PUT, path, #"{"base_url":"\#(Self.base)","timeout_seconds":20}"#)
        expectProblem(long, .validationFailed, errors: ["/timeout_seconds member_range"])
        #expect(
            try await fixture.operate(.PUT, path, #"{"base_url":"\#(Self.base)","timeout_seconds":19}"#).status == 201
        )
    }

    @Test func `names the invalid members of an upstream's body and changes nothing`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create()])
        let path = fixture.admin + "/upstream"
        let made = try await fixture.operate(.PUT, path, #"{"base_url":"\#(Self.base)","headers":{"x-a":"1"}}"#)
        #expect(made.status == 201)
        let many = (0..<33).map { #""x-\#($0)":"""# }.joined(separator: ",")
        let names = (0..<33).map { #""x-\#($0)""# }.joined(separator: ",")
        let pointer = "/" + String(repeating: "a", count: 200)
        let cases: [(String, ProblemCode, [String])] = [
            ("", .invalidJSON, []), ("[]", .invalidRequest, [" member_type"]),
            (#"{"base_url":"http://a","base_url":"http://b"}"#, .invalidRequest, ["/base_url member_duplicate"]),
            (#"{"base_url":null}"#, .validationFailed, ["/base_url member_type"]),
            (#"{"base_url":1}"#, .validationFailed, ["/base_url member_type"]),
            (#"{"base_url":""}"#, .validationFailed, ["/base_url member_range"]),
            (#"{"base_url":"ftp://a"}"#, .validationFailed, ["/base_url member_range"]),
            (#"{"base_url":"api.example.com"}"#, .validationFailed, ["/base_url member_range"]),
            (#"{"base_url":"http://u:p@a"}"#, .validationFailed, ["/base_url member_range"]),
            (#"{"base_url":"http://a/?q"}"#, .validationFailed, ["/base_url member_range"]),
            (#"{"base_url":"http://a/#f"}"#, .validationFailed, ["/base_url member_range"]),
            (#"{"timeout_seconds":0}"#, .validationFailed, ["/timeout_seconds member_range"]),
            (#"{"timeout_seconds":91}"#, .validationFailed, ["/timeout_seconds member_range"]),
            (#"{"timeout_seconds":1.5}"#, .validationFailed, ["/timeout_seconds member_range"]),
            (#"{"timeout_seconds":"30"}"#, .validationFailed, ["/timeout_seconds member_range"]),
            (#"{"max_concurrency":0}"#, .validationFailed, ["/max_concurrency member_range"]),
            (#"{"max_concurrency":1001}"#, .validationFailed, ["/max_concurrency member_range"]),
            (#"{"id_pointer":""}"#, .validationFailed, ["/id_pointer member_range"]),
            (#"{"id_pointer":"id"}"#, .validationFailed, ["/id_pointer member_range"]),
            (#"{"id_pointer":"/a~2"}"#, .validationFailed, ["/id_pointer member_range"]),
            (#"{"id_pointer":"\#(pointer)"}"#, .validationFailed, ["/id_pointer member_range"]),
            (#"{"headers":[]}"#, .validationFailed, ["/headers member_type"]),
            (#"{"headers":{\#(many)}}"#, .validationFailed, ["/headers member_range"]),
            (#"{"headers":{"a":1}}"#, .validationFailed, ["/headers/a member_type"]),
            (#"{"headers":{"a/b":"1"}}"#, .validationFailed, ["/headers/a~1b header_not_allowed"]),
            (#"{"headers":{"a":"\u000d"}}"#, .validationFailed, ["/headers/a header_not_allowed"]),
            (#"{"headers":{"Authorization":"x"}}"#, .validationFailed, ["/headers/Authorization header_not_allowed"]),
            (#"{"headers":{"host":"x"}}"#, .validationFailed, ["/headers/host header_not_allowed"]),
            (#"{"headers":{"X-Sluice-User":"x"}}"#, .validationFailed, ["/headers/X-Sluice-User header_not_allowed"]),
            (#"{"headers":{"a":"1","A":"2"}}"#, .validationFailed, ["/headers/A member_duplicate"]),
            (#"{"headers":{"a-b":"1","A_B":"2"}}"#, .validationFailed, ["/headers/A_B member_duplicate"]),
            (#"{"headers":{"X_Sluice_User":"x"}}"#, .validationFailed, ["/headers/X_Sluice_User header_not_allowed"]),
            (#"{"allowed_headers":{}}"#, .validationFailed, ["/allowed_headers member_type"]),
            (#"{"allowed_headers":[1]}"#, .validationFailed, ["/allowed_headers/0 member_type"]),
            (#"{"allowed_headers":["x","a b"]}"#, .validationFailed, ["/allowed_headers/1 header_not_allowed"]),
            (#"{"allowed_headers":["x-y","X_Y"]}"#, .validationFailed, ["/allowed_headers/1 member_duplicate"]),
            (#"{"allowed_headers":["accept_language"]}"#, .validationFailed, ["/allowed_headers/0 header_not_allowed"]),
            (#"{"allowed_headers":[\#(names)]}"#, .validationFailed, ["/allowed_headers member_range"]),
            (
                #"{"allowed_headers":["X_KEY"],"credential":{"header":"x-key","value":"k"}}"#, .validationFailed,
                ["/allowed_headers header_not_allowed"]
            ),
            (
                #"{"credential":{}}"#, .validationFailed,
                ["/credential/header member_required", "/credential/value member_required"]
            ),
            (#"{"credential":true}"#, .validationFailed, ["/credential member_type"]),
            (#"{"credential":"Signed"}"#, .validationFailed, ["/credential member_type"]),
            (#"{"credential":{"bearer":""}}"#, .validationFailed, ["/credential/bearer member_type"]),
            (#"{"credential":{"bearer":"a\u0001"}}"#, .validationFailed, ["/credential/bearer header_not_allowed"]),
            (#"{"credential":{"header":"X-Key"}}"#, .validationFailed, ["/credential/value member_required"]),
            (#"{"credential":{"value":"k"}}"#, .validationFailed, ["/credential/header member_required"]),
            (#"{"credential":{"header":"te","value":"k"}}"#, .validationFailed, ["/credential header_not_allowed"]),
            (#"{"credential":{"header":"x-a","value":"k"}}"#, .validationFailed, ["/headers/x-a header_not_allowed"]),
            (
                #"{"credential":{"bearer":"a","header":"b","value":"c"}}"#, .validationFailed,
                ["/credential member_range"]
            ),
            (#"{"credential":{"bearer":"a","user":"b"}}"#, .validationFailed, ["/credential/user member_unknown"]),
            (#"{"id":"x"}"#, .validationFailed, ["/id member_unknown"]),
            (
                #"{"max_concurrency":0,"timeout_seconds":0,"x":1}"#, .validationFailed,
                ["/max_concurrency member_range", "/timeout_seconds member_range", "/x member_unknown"]
            ),
        ]
        try await fixture.whileNothingChanges {
            for (body, code, errors) in cases {
                expectProblem(try await fixture.operate(.PUT, path, body), code, errors: errors)
            }
            for place in ["/admin/organizations/\(UUID().lowercased)", "/admin/organizations/x"] {
                expectProblem(try await fixture.operate(.GET, place + "/upstream"), .notFound, errors: [])
                expectProblem(try await fixture.operate(.DELETE, place + "/upstream"), .notFound, errors: [])
                let put = try await fixture.operate(.PUT, place + "/upstream", #"{"base_url":"\#(Self.base)"}"#)
                expectProblem(put, .notFound, errors: [])
            }
            for method: HTTPMethod in [.GET, .PUT, .DELETE] {
                let body = method == .PUT ? "{}" : nil
                expectProblem(try await fixture.operate(method, path + "?x=1", body), .invalidRequest)
                let stranger = try await send(
                    method,
                    fixture.gateway.operations + path,
                    token: fixture.ada.token,
                    body: body.map { Array($0.utf8) }
                )
                expectProblem(stranger, .unauthorized, errors: [])
            }
            expectProblem(try await fixture.operate(.POST, path, "{}"), .methodNotAllowed)
        }
        #expect(try await fixture.operate(.GET, path).text == made.text)
    }

    @Test func `a new upstream takes effect immediately and only for its organization`() async throws {
        let fixture = try await TwoTenantFixture()
        func push(_ worker: SyncWorker, _ type: String) async throws -> [String?] {
            var draft = worker.create(type)
            draft["endpoint"] = #""/things""#
            return try await worker.push([draft]).statuses
        }
        func type(_ name: String, of worker: SyncWorker) async throws -> [String?] {
            let path = "/admin/organizations/\(worker.organization.lowercased)/entity-types/\(name)"
            let json = try await fixture.operate(.GET, path).json
            return [json?["upstream"]?.text, json?["visibility"]?.string]
        }
        #expect(try await push(fixture.ada, "before") == ["succeeded"])
        #expect(try await push(fixture.eve, "before") == ["succeeded"])
        let body = #"{"base_url":"\#(Self.base)"}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", body).status == 201)
        #expect(try await push(fixture.ada, "during") == ["pending"])
        #expect(try await push(fixture.eve, "during") == ["succeeded"])
        #expect(try await push(fixture.bob, "before") == ["succeeded"], "an existing type is unchanged")
        let eves = "/admin/organizations/\(fixture.eve.organization.lowercased)/upstream"
        expectProblem(try await fixture.operate(.GET, eves), .notFound, errors: [])
        expectProblem(try await fixture.operate(.DELETE, eves), .notFound, errors: [])
        #expect(try await fixture.operate(.DELETE, fixture.admin + "/upstream").status == 204)
        #expect(try await push(fixture.bob, "after") == ["succeeded"])

        for name in ["before", "after"] { #expect(try await type(name, of: fixture.ada) == ["false", "organization"]) }
        #expect(try await type("during", of: fixture.ada) == ["true", "user"])
        #expect(try await type("during", of: fixture.eve) == ["false", "organization"])
    }

    @Test func `concurrent requests for an upstream all succeed and one creates it`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/upstream"
        let bodies = (1...8).map { #"{"base_url":"\#(Self.base)","headers":{"x":"\#($0)"}}"# }
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for body in bodies { group.addTask { try await fixture.operate(.PUT, path, body).status } }
            return try await group.reduce(into: [Int]()) { $0.append($1) }
        }
        #expect(statuses.sorted() == [200, 200, 200, 200, 200, 200, 200, 201])
    }

    @Test func `a purge deletes the upstream`() async throws {
        let fixture = try await TwoTenantFixture()
        let body = #"{"base_url":"\#(Self.base)","credential":{"bearer":"s3cret"}}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", body).status == 201)
        #expect(try await fixture.operate(.DELETE, fixture.admin).status == 204)
        #expect(try await fixture.mentions(of: "s3cret").values.allSatisfy { $0 == 0 })
        #expect(try await fixture.mentions(of: fixture.ada.organization.lowercased).values.allSatisfy { $0 == 0 })
        expectProblem(try await fixture.operate(.GET, fixture.admin + "/upstream"), .notFound, errors: [])
        expectProblem(try await fixture.operate(.PUT, fixture.admin + "/upstream", body), .notFound, errors: [])
    }
}
