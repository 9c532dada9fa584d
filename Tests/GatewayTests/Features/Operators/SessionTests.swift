import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `/console/session`, `/admin/me`, and the permissions of a cookie.
@Suite struct SessionTests {
    @Test func `a cookie has the permissions of its token`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        for (token, name, scope) in [
            (Operators.reader, "rita", "read"), (Operators.settler, "sam", "settle"),
            (Operators.admin, "anna", "admin"), (LiveGateway.operatorToken, "operator", "admin"),
        ] {
            let cookie = try await fixture.signIn(token)
            for reply in [
                try await fixture.call(.GET, "/admin/me", as: nil, nil, [("Cookie", cookie)]),
                try await fixture.call(.GET, "/admin/me", as: token),
            ] {
                #expect(reply.status == 200, "\(reply.text)")
                #expect(reply.json?.names == ["name", "scope", "version", "commit", "gateway_id", "sealed", "demo"])
                #expect(reply.json?["name"]?.string == name && reply.json?["scope"]?.string == scope)
                #expect(reply.json?["version"]?.string == "test" && reply.json?["commit"]?.string == "unknown")
            }
        }
    }

    @Test func `the cookie is inaccessible to scripts and other sites`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let body = #"{"token":"\#(Operators.reader)"}"#
        let plain = try await fixture.call(.POST, "/console/session", as: nil, body)
        let field = try #require(plain.header("set-cookie").first)
        #expect(plain.status == 204 && plain.header("cache-control") == ["no-store"])
        #expect(field.hasPrefix("sluice_session=v1."))
        #expect(field.hasSuffix("; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200") && !field.contains("Secure"))
        #expect(!field.contains(Operators.reader))
        let secure = try await fixture.call(.POST, "/console/session", as: nil, body, [("X-Forwarded-Proto", "https")])
        #expect(secure.header("set-cookie").first?.hasPrefix("__Host-sluice_session=v1.") == true)
        #expect(secure.header("set-cookie").first?.contains("; Secure; ") == true)
        let out = try await fixture.call(.DELETE, "/console/session", as: nil, nil, [("Sec-Fetch-Site", "same-origin")])
        #expect(
            out.status == 204
                && out.header("set-cookie") == [
                    "sluice_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"
                ]
        )
        #expect(try await fixture.call(.GET, "/console/session").status == 405)
    }

    @Test func `a cookie expires and cannot be forged`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let cookie = try await fixture.signIn(Operators.admin)
        func look(_ cookie: String) async throws -> Reply {
            try await fixture.call(.GET, "/admin/me", as: nil, nil, [("Cookie", "a=b; \(cookie)")])
        }
        #expect(try await look(cookie).status == 200)
        let value = cookie.dropFirst("sluice_session=".count)
        let parts = value.split(separator: ".")
        let later = "\(try #require(Int64(parts[2])) + 1)"
        for wrong in [
            "", "v1", "v1.x.y.z", String(value.dropLast()), String(value) + "0",
            "v1.\(parts[1]).\(later).\(parts[3])", "v2.\(parts[1]).\(parts[2]).\(parts[3])",
            "v1.0000000000000000.\(parts[2]).\(parts[3])",
        ] {
            let reply = try await look("sluice_session=" + wrong)
            #expect(reply.status == 401, "\(wrong): \(reply.text)")
        }
        // the signature of this operator's cookie with the name of another operator
        let other = try await fixture.signIn(Operators.reader).dropFirst("sluice_session=".count).split(separator: ".")
        #expect(try await look("sluice_session=v1.\(parts[1]).\(parts[2]).\(other[3])").status == 401)
        fixture.gateway.clock.advance(seconds: 43_199)
        #expect(try await look(cookie).status == 200)
        fixture.gateway.clock.advance(seconds: 2)
        #expect(try await look(cookie).status == 401)
    }

    @Test func `signing out invalidates every copy of the cookie at all gateways`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let twin = try await LiveGateway.start(on: fixture.gateway.database, configure: Operators.configure)
        let (ended, kept) = (try await fixture.signIn(Operators.admin), try await fixture.signIn(Operators.reader))
        func statuses(_ cookie: String) async throws -> [Int] {
            let own = try await fixture.call(.GET, "/admin/me", as: nil, nil, [("Cookie", cookie)])
            let other = try await send(.GET, twin.operations + "/admin/me", headers: [("Cookie", cookie)])
            return [own.status, other.status]
        }
        #expect(try await statuses(ended) == [200, 200])
        #expect(try await statuses(kept) == [200, 200])
        let fields = [("Cookie", ended), ("Sec-Fetch-Site", "same-origin")]
        #expect(try await fixture.call(.DELETE, "/console/session", as: nil, nil, fields).status == 204)
        #expect(try await fixture.call(.DELETE, "/console/session", as: nil, nil, fields).status == 204)
        // the other gateway has just read the list of ended sessions
        twin.clock.advance(seconds: 5)
        #expect(try await statuses(ended) == [401, 401])
        #expect(try await statuses(kept) == [200, 200])
    }

    /// Replicas accept each other's cookies, except for a replica without the token in its settings.
    @Test func `a cookie is valid at every gateway that has the token`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let cookie = try await fixture.signIn(Operators.admin)
        let twin = try await LiveGateway.start(on: fixture.gateway.database, configure: Operators.configure)
        let other = try await LiveGateway.start(on: fixture.gateway.database)
        for (gateway, status) in [(twin, 200), (other, 401)] {
            let reply = try await send(.GET, gateway.operations + "/admin/me", headers: [("Cookie", cookie)])
            #expect(reply.status == status, "\(reply.text)")
        }
    }

    @Test func `pages of other origins cannot use the cookie`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let cookie = ("Cookie", try await fixture.signIn(Operators.admin))
        let host = String(fixture.gateway.operations.dropFirst("http://".count))
        let change = #"{"name":"By the console"}"#
        let refused: [[(String, String)]] = [
            [], [("Sec-Fetch-Site", "none")], [("Sec-Fetch-Site", "same-site")], [("Sec-Fetch-Site", "cross-site")],
            [("Origin", "http://evil.example")], [("Origin", "null")],
            [("Origin", "http://\(host)"), ("Sec-Fetch-Site", "same-site")],
        ]
        for headers in refused {
            expectProblem(
                try await fixture.call(.PUT, fixture.admin, as: nil, change, [cookie] + headers),
                .forbidden,
                errors: []
            )
        }
        #expect(try await fixture.operate(.GET, fixture.admin).json?["name"]?.string != "By the console")
        #expect(try await fixture.audit("?actor=anna").isEmpty)
        for headers in [[("Sec-Fetch-Site", "same-origin")], [("Origin", "http://\(host)")]] {
            #expect(try await fixture.call(.PUT, fixture.admin, as: nil, change, [cookie] + headers).status == 200)
        }
        for (site, status) in [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)] {
            let reply = try await fixture.call(.GET, fixture.admin, as: nil, nil, [cookie, ("Sec-Fetch-Site", site)])
            #expect(reply.status == status)
        }
        // a token in the header does not depend on the request's origin
        let programs = [("Sec-Fetch-Site", "cross-site")]
        #expect(try await fixture.call(.PUT, fixture.admin, as: Operators.admin, change, programs).status == 200)
        let signIn = #"{"token":"\#(Operators.admin)"}"#
        let elsewhere = try await fixture.call(
            .POST,
            "/console/session",
            as: nil,
            signIn,
            [("Sec-Fetch-Site", "cross-site")]
        )
        expectProblem(elsewhere, .forbidden, errors: [])
    }

    @Test func `limits the rate of sign-in attempts with wrong tokens`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        func attempt(_ token: String) async throws -> Reply {
            try await fixture.call(.POST, "/console/session", as: nil, #"{"token":"\#(token)"}"#)
        }
        for number in 0..<10 {
            expectProblem(try await attempt("not-the-token-\(number)-0123"), .unauthorized, errors: [])
        }
        for token in ["not-the-token-at-all", Operators.admin] {
            let reply = try await attempt(token)
            expectProblem(reply, .rateLimited, errors: [])
            #expect(reply.header("retry-after") == ["60"])
        }
        // a token in the header is not affected
        #expect(try await fixture.call(.GET, "/admin/me", as: Operators.admin).status == 200)
        fixture.gateway.clock.advance(seconds: 60)
        #expect(try await attempt(Operators.admin).status == 204)
    }

    /// If valid tokens were counted, a guesser could lock out an operator.
    @Test func `sign-ins with valid tokens do not count as guesses`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        func attempt(_ token: String) async throws -> Int {
            try await fixture.call(.POST, "/console/session", as: nil, #"{"token":"\#(token)"}"#).status
        }
        for _ in 0..<9 { #expect(try await attempt("not-the-token-at-all") == 401) }
        for _ in 0..<12 { #expect(try await attempt(Operators.admin) == 204) }
        #expect(try await attempt("not-the-token-at-all") == 401)
        #expect(try await attempt(Operators.admin) == 429)
    }

    @Test func `concurrent guesses do not get additional attempts`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let port = try #require(URL(string: fixture.gateway.operations)?.port)
        let body = #"{"token":"not-the-token-at-all"}"#
        let head =
            "POST /console/session HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            + "Content-Length: \(body.utf8.count)\r\nExpect: 100-continue\r\n\r\n"
        var connections: [RawConnection] = []
        for _ in 0..<40 {
            let connection = try RawConnection(port: port)
            await connection.send(head)
            // the gateway has made all checks that precede the body
            #expect(try await connection.reply().status == 100)
            connections.append(connection)
        }
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for connection in connections {
                group.addTask {
                    await connection.send(body)
                    return try await connection.reply().status
                }
            }
            var statuses: [Int] = []
            for try await status in group { statuses.append(status) }
            return statuses
        }
        #expect(statuses.sorted() == Array(repeating: 401, count: 10) + Array(repeating: 429, count: 30))
    }

    @Test func `rejects invalid sign-in requests`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        for (body, pointer) in [
            ("{}", "/token member_required"), (#"{"token":7}"#, "/token member_type"),
            (#"{"token":"x","more":1}"#, "/more member_unknown"),
        ] {
            expectProblem(
                try await fixture.call(.POST, "/console/session", as: nil, body),
                .validationFailed,
                errors: [pointer]
            )
        }
        let form = [("Content-Type", "application/x-www-form-urlencoded")]
        let posted = try await fixture.call(.POST, "/console/session", as: nil, "token=x", form)
        expectProblem(posted, .unsupportedMediaType, errors: [])
        expectProblem(try await fixture.call(.POST, "/console/session?next=/", as: nil, "{}"), .invalidRequest)
    }
}
