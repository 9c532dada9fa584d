import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// Requests that match no endpoint or are not valid HTTP.
@Suite struct BadRequestTests {
    @Test func `answers 404 for unknown paths`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.whileNothingChanges {
            for path in [
                "/", "/v1", "/v1/", "/v2/mutations", "/V1/mutations", "/v1/Mutations", "/v1/mutations/x/y",
                "/v1/mutations%2F", "/v1/mutations;x=1", "/v1/../v1/mutations", "/v1/id-mappings/", "/favicon.ico",
            ] {
                for method: HTTPMethod in [.GET, .POST, .DELETE] {
                    let reply = try await send(method, fixture.gateway.address + path, token: fixture.ada.token)
                    expectProblem(reply, .notFound, errors: [])
                    // requests without a token get no details either
                    expectProblem(try await send(method, fixture.gateway.address + path), .notFound, errors: [])
                }
            }
        }
    }

    @Test func `answers an unsupported method with the allowed methods`() async throws {
        let fixture = try await TwoTenantFixture()
        let others: [(String, [HTTPMethod], String)] = [
            ("/v1/mutations", [.PUT, .PATCH, .DELETE, .OPTIONS, .TRACE], "POST, GET, HEAD"),
            ("/v1/mutations/\(UUID().lowercased)", [.POST, .PUT, .DELETE, .OPTIONS], "GET, HEAD"),
            ("/v1/mutations/preview", [.GET, .HEAD, .PUT, .DELETE], "POST"),
            ("/v1/id-mappings/lookup", [.GET, .HEAD, .PUT, .DELETE], "POST"),
            ("/v1/id-mappings", [.POST, .PUT, .DELETE], "GET, HEAD"),
            ("/v1/backlog", [.POST, .PUT, .DELETE], "GET, HEAD"),
            ("/v1/devices/\(UUID().lowercased)", [.GET, .HEAD, .POST, .DELETE], "PUT"),
            ("/v1/changes", [.POST, .PUT, .PATCH], "GET, HEAD"),
        ]
        try await fixture.whileNothingChanges {
            for (path, methods, allow) in others {
                for method in methods {
                    let reply = try await send(method, fixture.gateway.address + path, token: fixture.ada.token)
                    #expect(reply.header("allow") == [allow], "\(method) \(path)")
                    if method == .HEAD {
                        #expect(reply.status == 405)
                    } else {
                        expectProblem(reply, .methodNotAllowed, errors: [])
                    }
                }
            }
        }
    }

    @Test func `HEAD returns the headers of GET without a body`() async throws {
        let fixture = try await TwoTenantFixture()
        let url = fixture.gateway.address + "/v1/mutations"
        let get = try await send(.GET, url, token: fixture.ada.token)
        let head = try await send(.HEAD, url, token: fixture.ada.token)
        #expect(head.status == 200)
        #expect(head.body.isEmpty)
        #expect(head.header("content-type") == get.header("content-type"))
        #expect(head.header("content-length") == get.header("content-length"))
        #expect(try await send(.HEAD, url).status == 401)
    }

    @Test func `rejects a request that does not accept JSON`() async throws {
        let fixture = try await TwoTenantFixture()
        let body = fixture.ada.envelope([fixture.ada.create()])
        try await fixture.whileNothingChanges {
            for accept in ["text/html", "application/json;q=0", "*/*;q=0.0", "application/xml, text/*"] {
                let headers = [("Accept", accept)]
                let push = try await fixture.ada.post("/v1/mutations", body, headers: headers)
                expectProblem(push, .notAcceptable, errors: [])
                expectProblem(try await fixture.ada.get("/v1/changes", headers: headers), .notAcceptable, errors: [])
            }
        }
        for accept in ["application/json", "*/*", "application/*", "text/html, application/json;q=0.1", ""] {
            #expect(try await fixture.ada.get("/v1/changes", headers: [("Accept", accept)]).status == 200, "\(accept)")
        }
    }

    @Test func `answers invalid HTTP once and closes the connection`() async throws {
        let fixture = try await TwoTenantFixture()
        let head = "POST /v1/mutations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\n"
        let type = "Content-Type: application/json\r\n"
        let texts = [
            "hello\r\n\r\n", "BREW /v1/mutations HTTP/1.1\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
            "\u{16}\u{3}\u{1}\0\u{1}\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", head + "Bad Header: x\r\n\r\n", head + "X: a\0b\r\n\r\n",
            head + type + "Content-Length: -1\r\n\r\n", head + type + "Content-Length: 1x\r\n\r\n",
            head + type + "Content-Length: 99999999999999999999\r\n\r\n",
            head + type + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            head + type + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ]
        try await fixture.whileNothingChanges {
            for text in texts {
                let connection = try RawConnection(port: fixture.gateway.port)
                await connection.send(text)
                let reply = try await connection.reply()
                expectProblem(reply, .invalidRequest, errors: [])
                #expect(reply.header("connection") == ["close"])
                connection.finishSending()
                #expect(await connection.rest().isEmpty)
            }
        }
    }

    @Test func `rejects malformed chunks`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.whileNothingChanges {
            for chunks in ["x\r\n", "-1\r\n", "fffffffffffffffff\r\n"] {
                let connection = try RawConnection(port: fixture.gateway.port)
                await connection.send(fixture.ada.pushHead("Transfer-Encoding: chunked\r\n") + "2\r\n{}\r\n" + chunks)
                let reply = try await connection.reply()
                expectProblem(reply, .invalidRequest, errors: [])
                #expect(reply.header("connection") == ["close"])
            }
        }
    }

    @Test func `rejects a request head that is too large`() async throws {
        let fixture = try await TwoTenantFixture()
        let filler = String(repeating: "x", count: 40_000)
        let fields = (0..<101).map { "X-\($0): y\r\n" }.joined()
        let heads = [
            "GET /v1/changes?since=\(filler) HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nX: \(filler)\r\n\r\n",
            "GET / HTTP/1.1\r\n\(filler): x\r\n\r\n", "GET / HTTP/1.1\r\n\(fields)\r\n",
            "\(filler) / HTTP/1.1\r\nHost: x\r\n\r\n",
        ]
        try await fixture.whileNothingChanges {
            for head in heads {
                let connection = try RawConnection(port: fixture.gateway.port)
                await connection.send(head)
                let reply = try await connection.reply()
                expectProblem(reply, .invalidRequest, errors: [])
                #expect(reply.header("connection") == ["close"])
            }
        }
        let long = String(repeating: "x", count: 10_000)
        #expect(try await fixture.ada.get("/v1/changes", headers: [("X-Long", long)]).status == 200)
    }
}
