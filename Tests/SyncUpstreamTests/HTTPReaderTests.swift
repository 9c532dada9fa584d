import Logging
import SyncModel
import SyncUpstream
import Testing

/// Requests to identity providers, and the results of their answers.
@Suite(.timeLimit(.minutes(10))) struct HTTPReaderTests {
    private func withReader<Result>(_ body: (HTTPReader) async throws -> Result) async throws -> Result {
        let reader = HTTPReader(version: "9", logger: Logger(label: "test"))
        do {
            let result = try await body(reader)
            await reader.shutdown()
            return result
        } catch {
            await reader.shutdown()
            throw error
        }
    }

    private func answer(_ text: String, etag: String? = nil) async throws -> KeySetAnswer {
        let server = try await ScriptedServer.start(answering: text)
        return try await withReader { await $0.keySet(server.baseURL + "/keys", etag) }
    }

    @Test func `returns a key set with its tag and its age`() async throws {
        let text = "HTTP/1.1 200 OK\r\nETag: W/\"1\"\r\nCache-Control: public\r\nCache-Control: max-age=60\r\n"
        let body = #"{"keys":[]}"#
        let server = try await ScriptedServer.start(answering: text + "Content-Length: \(body.count)\r\n\r\n" + body)
        let answers = try await withReader { reader in
            [
                await reader.keySet(server.baseURL + "/keys?a=b", nil),
                await reader.keySet(server.baseURL + "/keys", "W/\"0\""),
            ]
        }
        let expected = KeySetAnswer.document(Array(body.utf8), etag: "W/\"1\"", cacheControl: "public,max-age=60")
        #expect(answers == [expected, expected])
        let (first, second) = (try #require(await server.next()), try #require(await server.next()))
        #expect(first.requestLine == "GET /keys?a=b HTTP/1.1")
        #expect(first.header("If-None-Match") == [])
        #expect(first.header("Authorization") == [])
        #expect(first.header("User-Agent") == ["sluice/9"])
        #expect(second.header("If-None-Match") == ["W/\"0\""])
    }

    @Test func `an unchanged key set is not sent again`() async throws {
        #expect(try await answer("HTTP/1.1 304 Not Modified\r\n\r\n", etag: "\"1\"") == .unchanged(cacheControl: nil))
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func `redirects are not followed`(status: Int) async throws {
        let server = try await ScriptedServer.start { number, _ in
            [.send("HTTP/1.1 \(status) Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")]
        }
        let answer = try await withReader { await $0.keySet(server.baseURL, nil) }
        #expect(answer == .failed("a redirect (\(status)), which is not followed; use the final URL"))
    }

    @Test func `other answers are failures`() async throws {
        for status in [204, 400, 401, 404, 500, 503] {
            let text = "HTTP/1.1 \(status) X\r\n" + (status == 204 ? "" : "Content-Length: 0\r\n") + "\r\n"
            #expect(try await answer(text) == .failed("status \(status)"))
        }
        guard case .failed = try await answer("hello\r\n\r\n") else {
            Issue.record("the text is not HTTP")
            return
        }
    }

    @Test func `does not read a document that is too large`() async throws {
        #expect(
            try await answer("HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n{")
                == .failed("the document is too large")
        )
        let chunk = "80000\r\n" + String(repeating: " ", count: 0x80000) + "\r\n"
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk + chunk
        #expect(try await answer(chunked) == .failed("the document is too large"))
    }

    @Test func `cuts off a trickling server`() async throws {
        let server = try await ScriptedServer.start { _, _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"), .trickle(" ")]
        }
        let start = ContinuousClock.now
        let answer = try await withReader { await $0.keySet(server.baseURL, nil) }
        #expect(answer == .failed("timed out after 5 s"))
        #expect(ContinuousClock.now - start < .seconds(120), "the answer would never end")
    }

    @Test(arguments: ["ftp://127.0.0.1/", "file:///etc/passwd", "http://u:p@127.0.0.1/", "x", "http://127.0.0.1/#a"])
    func `does not request an unsuitable URL`(url: String) async throws {
        guard case .failed(let reason) = try await withReader({ await $0.keySet(url, nil) }) else {
            Issue.record("\(url) was requested")
            return
        }
        #expect(reason.hasPrefix("the URL "))
        #expect(!reason.contains(url))
    }

    @Test func `any answer shows that a server is reachable`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 418 X\r\nContent-Length: 0\r\n\r\n")
        let status = try await withReader { try await $0.probe(server.baseURL + "/api").get() }
        #expect(status == 418)
        let failure = try await withReader { await $0.probe("http://127.0.0.1:9") }
        guard case .failure(let reason) = failure else {
            Issue.record("a server was reached although none listens")
            return
        }
        #expect(reason.text == "connection refused")
    }
}
