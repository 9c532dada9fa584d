import Foundation
import SyncModel
import SyncUpstream
import Testing

/// The requests that upstreams receive.
@Suite struct RequestTests {
    /// The one request that the server receives.
    private func sent(
        _ request: UpstreamRequest,
        credential: UpstreamCredential? = nil,
        operators: [ByteExactString: String] = [:],
        path: String = "",
        sign: HTTPUpstream.Sign? = nil
    ) async throws -> ScriptedServer.Received {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 204 No Content\r\n\r\n")
        let settings = UpstreamSettings(baseURL: server.baseURL + path, credential: credential, headers: operators)
        let answer = try await withUpstream(sign: sign) { await $0.send(request, to: settings) }
        #expect(answer.response?.status == 204, "\(answer)")
        return try #require(await server.next())
    }

    @Test func `a request identifies its user and organization`() async throws {
        let received = try await sent(request("PATCH", "/items/7?full=1"), path: "/api/v2")
        #expect(received.requestLine == "PATCH /api/v2/items/7?full=1 HTTP/1.1")
        #expect(received.body == #"{"a":1}"#)
        #expect(received.header("Content-Length") == ["7"])
        #expect(received.header("Content-Type") == ["application/json"])
        #expect(received.header("Accept") == ["application/json"])
        #expect(received.header("User-Agent") == ["sluice/unknown"])
        #expect(received.header("Idempotency-Key") == ["00000000-0000-4000-8000-00000000000c"])
        #expect(received.header("X-Sluice-Organization") == ["00000000-0000-4000-8000-00000000000a"])
        #expect(received.header("X-Sluice-User") == ["00000000-0000-4000-8000-00000000000b"])
        #expect(received.header("Host").first?.hasPrefix("127.0.0.1:") == true)
        #expect(received.header("Authorization") == [])
    }

    @Test func `a request contains nothing of an earlier one to the same URL`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 204 No Content\r\n\r\n")
        let secret = UpstreamSettings(baseURL: server.baseURL, credential: .bearer("secret"), headers: ["x-of": "one"])
        let open = UpstreamSettings(baseURL: server.baseURL)
        try await withUpstream { upstream in
            _ = await upstream.send(request("PUT", ifMatch: #""7""#), to: secret)
            _ = await upstream.send(request("PUT", body: nil), to: open)
            _ = await upstream.send(request("DELETE", body: nil), to: open)
        }
        let first = try #require(await server.next())
        #expect(first.header("Authorization") == ["Bearer secret"] && first.header("If-Match") == [#""7""#])
        let second = try #require(await server.next())
        #expect(second.requestLine == "PUT /items HTTP/1.1" && second.body.isEmpty)
        for header in ["Authorization", "If-Match", "X-Of", "Content-Type"] { #expect(second.header(header) == []) }
        #expect(try #require(await server.next()).requestLine == "DELETE /items HTTP/1.1")
    }

    @Test(arguments: [20, 1_000])
    func `head and body are sent together`(_ length: Int) async throws {
        for _ in 0..<20 {
            let received = try await sent(request(body: "[\(String(repeating: "1", count: length))]"))
            #expect(received.pieces == 1)
        }
    }

    @Test func `a trace continues under a new parent`() async throws {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let received = try await sent(request(traceparent: parent))
        let text = try #require(received.header("traceparent").first)
        #expect(text.hasPrefix("00-0af7651916cd43dd8448eb211c80319c-"))
        #expect(text.hasSuffix("-01"))
        #expect(text.utf8.count == 55)
        #expect(text != parent)
    }

    @Test(arguments: [nil, "", "nonsense", "00-00000000000000000000000000000000-b7ad6b7169203331-01"])
    func `a request without a valid trace starts a new one`(_ traceparent: String?) async throws {
        let received = try await sent(request(traceparent: traceparent))
        let parts = try #require(received.header("traceparent").first).split(separator: "-")
        #expect(parts.map(\.count) == [2, 32, 16, 2])
        #expect(parts[1].contains { $0 != "0" })
    }

    @Test(arguments: [("POST", ["0"]), ("PUT", ["0"]), ("PATCH", ["0"]), ("DELETE", [])])
    func `a request without body has no content type`(_ method: String, _ length: [String]) async throws {
        let received = try await sent(
            request(method, headers: ["content-type": "application/json"], body: nil),
            operators: ["content-type": "text/plain"]
        )
        #expect(received.header("Content-Type") == [])
        #expect(received.header("Content-Length") == length)
    }

    @Test func `a delete may have a body`() async throws {
        let received = try await sent(request("DELETE", body: "{}"))
        #expect(received.header("Content-Length") == ["2"])
        #expect(received.body == "{}")
    }

    /// Each row has the header, the value of each party, and the values that are sent.
    @Test(
        arguments: [
            ("accept-language", nil, nil, "nb", ["nb"]),
            ("accept-language", nil, "en", "nb", ["en"]),
            ("accept", nil, nil, "text/plain", ["text/plain"]),
            ("accept", nil, "application/vnd.x+json", "text/plain", ["application/vnd.x+json"]),
            ("content-type", nil, nil, "application/merge-patch+json", ["application/merge-patch+json"]),
            ("user-agent", nil, nil, "phone", ["phone"]),
            ("x-api-key", "credential", "operator", "mutation", ["credential"]),
            ("authorization", "credential", "operator", "mutation", ["credential"]),
            ("authorization", nil, "operator", "mutation", []),
            ("cookie", nil, "operator", "mutation", []),
            ("idempotency-key", nil, "operator", "mutation", ["00000000-0000-4000-8000-00000000000c"]),
            ("x-sluice-user", nil, "operator", "mutation", ["00000000-0000-4000-8000-00000000000b"]),
            ("traceparent", nil, "operator", "mutation", nil),
            ("content-length", nil, "1", "2", ["7"]),
            ("transfer-encoding", nil, "chunked", "chunked", []),
            ("connection", nil, "close", "close", []),
            ("accept-encoding", nil, "gzip", "br", ["identity"]),
            ("expect", nil, "100-continue", "100-continue", []),
            ("x-evil", nil, "a\r\nx-more: 1", "a\r\nx-more: 1", []),
        ] as [(String, String?, String?, String?, [String]?)]
    )
    func `headers have an order of precedence`(
        _ name: String,
        _ credential: String?,
        _ operators: String?,
        _ mutation: String?,
        _ result: [String]?
    ) async throws {
        let received = try await sent(
            request(headers: mutation.map { [ByteExactString(name): $0] } ?? [:]),
            credential: credential.map { .header(name: name, value: $0) },
            operators: operators.map { [ByteExactString(name): $0] } ?? [:]
        )
        if let result {
            #expect(received.header(name) == result)
        } else {
            #expect(received.header(name).count == 1)
            #expect(received.header(name) != [operators ?? ""])
            #expect(received.header(name) != [mutation ?? ""])
        }
        #expect(received.header("x-more") == [])
    }

    @Test func `a credential never replaces the gateway's own headers`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 204 No Content\r\n\r\n")
        let settings = UpstreamSettings(
            baseURL: server.baseURL,
            credential: .header(name: "Idempotency-Key", value: "mine")
        )
        let answer = try await withUpstream { await $0.send(request(), to: settings) }
        #expect(answer.unready != nil)
    }

    @Test func `sends credentials`() async throws {
        let bearer = try await sent(request(), credential: .bearer("abc"))
        #expect(bearer.header("Authorization") == ["Bearer abc"])
        let signed = try await sent(request(), credential: .signed) { organization, user in
            "\(organization.uuidString.suffix(1)).\(user.uuidString.suffix(1))"
        }
        #expect(signed.header("Authorization") == ["Bearer A.B"])
    }

    @Test func `the gateway's If-Match overrides the mutation's`() async throws {
        let headers: [ByteExactString: String] = [
            "if-match": "\"1\"", "if-unmodified-since": "Sun, 06 Nov 1994 08:49:37 GMT",
        ]
        let theirs = try await sent(request(headers: headers))
        #expect(theirs.header("If-Match") == ["\"1\""])
        #expect(theirs.header("If-Unmodified-Since").count == 1)
        let ours = try await sent(request(headers: headers, ifMatch: "\"2\""))
        #expect(ours.header("If-Match") == ["\"2\""])
    }

    @Test func `an unconditional request has no condition`() async throws {
        let headers: [ByteExactString: String] = [
            "If-Match": "\"1\"", "if-unmodified-since": "x", "if-none-match": "*", "x-kept": "1",
        ]
        let received = try await sent(request(headers: headers, isUnconditional: true))
        #expect(received.header("If-Match") == [])
        #expect(received.header("If-Unmodified-Since") == [])
        #expect(received.header("If-None-Match") == [])
        #expect(received.header("X-Kept") == ["1"])
    }

    @Test(arguments: [
        ("/a b", nil), ("//evil.example/x", nil), ("/../x", nil), ("/a/%2e%2e/b", nil), ("/a#b", nil), ("x", nil),
        ("/caf\u{e9}/{x}?q=\"\u{e9}\"&f[a]=%zz", "/base/caf%C3%A9/%7Bx%7D?q=%22%C3%A9%22&f%5Ba%5D=%25zz"),
        ("/a%2Fb?x=a/../b&y=%20", "/base/a%2Fb?x=a/../b&y=%20"), ("/", "/base/"),
        ("/a:b@c!$&'()*+,;=~", "/base/a:b@c!$&'()*+,;=~"), ("/%E2%82%AC?%E2%82%AC", "/base/%E2%82%AC?%E2%82%AC"),
    ])
    func `a path arrives as intended`(_ path: String, _ arrived: String?) async throws {
        guard let arrived else {
            let settings = UpstreamSettings(baseURL: "http://127.0.0.1:1/base")
            let answer = try await withUpstream { await $0.send(request("POST", path), to: settings) }
            #expect(answer.refused?.contains("path") == true)
            return
        }
        let received = try await sent(request("POST", path), path: "/base")
        #expect(received.requestLine == "POST \(arrived) HTTP/1.1")
    }
}
