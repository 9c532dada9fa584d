import Foundation
import SyncModel
import SyncUpstream
import TestSupport
import Testing

/// Reading from upstreams.
@Suite struct FetchTests {
    private func fetch(
        _ path: String = "/items",
        headers: [ByteExactString: String] = [:],
        etag: String? = nil,
        maximumBytes: Int = 1_000,
        timeout: Duration = .seconds(60)
    ) -> UpstreamFetch {
        UpstreamFetch(
            organization: organization,
            path: path,
            headers: headers,
            etag: etag,
            lastModified: etag.map { _ in "Fri, 20 Nov 2026 07:00:00 GMT" },
            maximumBytes: maximumBytes,
            timeout: timeout
        )
    }

    private func answer(_ text: String, _ request: UpstreamFetch? = nil) async throws -> FetchAnswer {
        let server = try await ScriptedServer.start(answering: text)
        let request = request ?? fetch()
        return try await withUpstream { await $0.fetch(request, from: UpstreamSettings(baseURL: server.baseURL)) }
    }

    private func response(_ text: String) async throws -> FetchedResponse {
        let answer = try await answer(text)
        guard case .response(let response) = answer else { throw Unexpected(description: "\(answer)") }
        return response
    }

    private struct Unexpected: Error {
        let description: String
    }

    @Test func `a fetch names no user, has the credential, and only the gateway's conditions`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 304 Not Modified\r\n\r\n")
        let settings = UpstreamSettings(
            baseURL: server.baseURL + "/v1",
            credential: .bearer("secret"),
            headers: ["x-app": "upstream", "x-other": "1", "if-none-match": "never", "accept-encoding": "gzip"]
        )
        let request = fetch("/items?a=b", headers: ["x-app": "source", "accept": "text/json"], etag: #"W/"7""#)
        let answer = try await withUpstream { await $0.fetch(request, from: settings) }
        guard case .response(let response) = answer else { throw Unexpected(description: "\(answer)") }
        #expect(response.status == 304 && response.body == [])
        let received = try #require(await server.next())
        #expect(received.requestLine == "GET /v1/items?a=b HTTP/1.1" && received.body == "")
        #expect(received.header("authorization") == ["Bearer secret"])
        #expect(received.header("if-none-match") == [#"W/"7""#])
        #expect(received.header("if-modified-since") == ["Fri, 20 Nov 2026 07:00:00 GMT"])
        #expect(received.header("x-app") == ["source"] && received.header("x-other") == ["1"])
        #expect(received.header("accept") == ["text/json"] && received.header("accept-encoding") == ["identity"])
        #expect(received.header("x-sluice-organization") == [organization.uuidString.lowercased()])
        #expect(received.header("x-sluice-user") == [] && received.header("idempotency-key") == [])
    }

    @Test func `a signed credential belongs to no user`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
        let settings = UpstreamSettings(baseURL: server.baseURL, credential: .signed)
        _ = try await withUpstream(sign: { "\($0.uuidString).\($1.uuidString)" }) {
            await $0.fetch(fetch(), from: settings)
        }
        let received = try #require(await server.next())
        let signed = "\(organization.uuidString).00000000-0000-8000-8000-000000000001"
        #expect(received.header("authorization") == ["Bearer " + signed])
    }

    @Test func `returns the relevant parts of an answer`() async throws {
        let response = try await response(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nETag: \"a\"\r\n"
                + "Last-Modified: Fri, 20 Nov 2026 07:00:00 GMT\r\nLink: <a>; rel=prev\r\nLink: <b>; rel=next\r\n"
                + "Retry-After: 7\r\nContent-Length: 4\r\n\r\n[1] "
        )
        #expect(response.status == 200 && response.contentType == "application/json" && response.etag == "\"a\"")
        #expect(response.lastModified == "Fri, 20 Nov 2026 07:00:00 GMT")
        #expect(response.links == ["<a>; rel=prev", "<b>; rel=next"] && response.retryAt == noon.adding(seconds: 7))
        #expect(response.body == Array("[1] ".utf8))
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Length: 209715200\r\n\r\n[",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            + String(repeating: "100\r\n" + String(repeating: "x", count: 256) + "\r\n", count: 5),
    ])
    func `does not read a body that is too long`(_ text: String) async throws {
        let response = try await response(text)
        #expect(response.status == 200 && response.body == nil)
    }

    @Test func `a redirect is not followed`() async throws {
        let elsewhere = try await ScriptedServer.start(answering: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        let response = try await response(
            "HTTP/1.1 302 Found\r\nLocation: \(elsewhere.baseURL)/\r\nContent-Length: 0\r\n\r\n"
        )
        #expect(response.status == 302 && response.location == elsewhere.baseURL + "/")
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n[1,2",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
    ])
    func `a truncated answer is a failure`(_ text: String) async throws {
        let server = try await ScriptedServer.start { _, _ in [.send(text), .close] }
        let answer = try await withUpstream {
            await $0.fetch(fetch(), from: UpstreamSettings(baseURL: server.baseURL))
        }
        guard case .none = answer else {
            Issue.record("\(answer)")
            return
        }
    }

    @Test func `an endless answer is abandoned in time, and so is a cancelled request`() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"
        let server = try await ScriptedServer.start { _, _ in [.send(head), .trickle("x")] }
        let settings = UpstreamSettings(baseURL: server.baseURL)
        try await withUpstream { upstream in
            let late = await upstream.fetch(fetch(timeout: .milliseconds(200)), from: settings)
            guard case .none("timed out after 200 ms") = late else {
                Issue.record("\(late)")
                return
            }
            let task = Task { await upstream.fetch(fetch(), from: settings) }
            _ = await server.next()
            _ = await server.next()
            task.cancel()
            guard case .none("cancelled") = await task.value else {
                Issue.record("the request was not cancelled")
                return
            }
        }
    }

    @Test(arguments: ["/../admin", "//elsewhere.example/", "/%2e%2e/x", "items"])
    func `requests nothing above the base URL`(_ path: String) async throws {
        let answer = try await answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", fetch(path))
        guard case .none(let reason) = answer else {
            Issue.record("\(answer)")
            return
        }
        #expect(reason.hasPrefix("the path"))
    }
}
