import SyncModel
import SyncUpstream
import Testing

/// The parts of an answer that are used.
@Suite struct AnswerTests {
    private func answer(_ text: String) async throws -> UpstreamResponse {
        let server = try await ScriptedServer.start(answering: text)
        let answer = try await withUpstream {
            await $0.send(request(), to: UpstreamSettings(baseURL: server.baseURL))
        }
        return try #require(answer.response, "\(answer)")
    }

    private func answer(body: String, headers: String = "") async throws -> UpstreamResponse {
        try await answer("HTTP/1.1 200 OK\r\n\(headers)Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
    }

    /// The body is still returned separately, so that an id can be read from it.
    @Test(arguments: [#"{"id":5,"note":"a\u0000b"}"#, #"{"id":5,"note":"\ud800"}"#, #"{"id":5,"t":1,"t":2}"#])
    func `does not keep JSON that PostgreSQL cannot store`(_ body: String) async throws {
        let response = try await answer(body: body)
        #expect(response.json == nil)
        #expect(response.unkeptJSON == Array(body.utf8))
        #expect(try await answer(body: #"{"id":5}"#).unkeptJSON == nil)
    }

    @Test func `a redirect is not followed`() async throws {
        let response = try await answer(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        )
        #expect(response.status == 307)
        #expect(response.location == "http://127.0.0.1:1/")
        #expect(response.json == nil)
    }

    @Test(arguments: [
        ("401 Unauthorized", "WWW-Authenticate: Bearer realm=\"secret\"", "Bearer"),
        ("401 Unauthorized", "WWW-Authenticate: Negotiate, Basic realm=\"x\"", "Negotiate"),
        ("401 Unauthorized", "Proxy-Authenticate: Basic", nil), ("401 Unauthorized", "X-A: b", nil),
        ("401 Unauthorized", "WWW-Authenticate: \(String(repeating: "x", count: 41))", nil),
        ("401 Unauthorized", "WWW-Authenticate: \"quoted\"", nil),
        ("407 Proxy Authentication Required", "Proxy-Authenticate: Digest nonce=\"secret\"", "Digest"),
    ])
    func `returns the scheme of a challenge`(_ status: String, _ header: String, _ scheme: String?) async throws {
        let response = try await answer("HTTP/1.1 \(status)\r\n\(header)\r\nContent-Length: 0\r\n\r\n")
        #expect(response.challenge == scheme)
    }

    @Test func `reads headers`() async throws {
        let response = try await answer(
            body: "{}",
            headers: "ETag: W/\"7\"\r\nLocation: /items/9\r\nRetry-After: 120\r\n"
        )
        #expect(response.etag == "W/\"7\"")
        #expect(response.location == "/items/9")
        #expect(response.retryAt == noon.adding(seconds: 120))
    }

    @Test func `drops a long ETag`() async throws {
        let longest = String(repeating: "x", count: 1_000)
        #expect(try await answer(body: "{}", headers: "ETag: \(longest)\r\n").etag == longest)
        #expect(try await answer(body: "{}", headers: "ETag: \(longest)x\r\n").etag == nil)
        #expect(try await answer(body: "{}", headers: "ETag: \"é\"\r\n").etag == nil)
    }

    @Test(arguments: [
        ("\"1\"", true), ("W/\"1\"", true), ("\"\"", true), ("abc", true), ("*", false), ("w/\"1\"", false),
        ("\"1\", \"2\"", false), ("W/*", false), ("a, b", false), ("\"1", false), ("\"", false), ("W/ \"1\"", false),
    ])
    func `drops an ETag that is not a valid entity tag`(_ tag: String, isKept: Bool) async throws {
        #expect(try await answer(body: "{}", headers: "ETag: \(tag)\r\n").etag == (isKept ? tag : nil), "\(tag)")
    }

    @Test func `drops the white space around a header's value, and an ETag with a tab`() async throws {
        let headers = "ETag: \"1\" \t\r\nLocation: /items/9 \r\nLocation:\t/items/9\r\nRetry-After: 120 \r\n"
        let response = try await answer(body: "{}", headers: headers)
        #expect(response.etag == "\"1\"" && response.location == "/items/9" && response.unusedLocation == nil)
        #expect(response.retryAt == noon.adding(seconds: 120))
        #expect(try await answer(body: "{}", headers: "ETag: \"a\tb\"\r\n").etag == nil)
        #expect(try await answer(body: "{}", headers: "ETag: \t\r\n").etag == nil)
    }

    @Test func `uses neither of two different values of ETag or Location, and no long Location`() async throws {
        let headers = "ETag: \"1\"\r\nETag: \"2\"\r\nLocation: /a/1\r\nLocation: /a/2\r\n"
        let twice = try await answer(body: "{}", headers: headers)
        #expect(twice.etag == nil && twice.location == nil && twice.unusedLocation == .several)
        let same = try await answer(body: "{}", headers: "ETag: \"1\"\r\nETag: \"1\"\r\n")
        #expect(same.etag == "\"1\"")
        let longest = "/" + String(repeating: "x", count: 8_191)
        #expect(try await answer(body: "{}", headers: "Location: \(longest)\r\n").location == longest)
        let long = try await answer(body: "{}", headers: "Location: \(longest)x\r\n")
        #expect(long.location == nil && long.unusedLocation == .tooLong)
    }

    @Test(arguments: [
        ("application/problem+json", true), ("Application/Problem+JSON ;charset=utf-8", true),
        ("application/json", false), ("application/problem+xml", false),
    ])
    func `recognizes a problem document by its type`(_ type: String, _ isProblem: Bool) async throws {
        #expect(try await answer(body: "{}", headers: "Content-Type: \(type)\r\n").isProblem == isProblem)
    }

    @Test func `bytes that are not UTF-8 are marked in a Location`() async throws {
        let head = Array("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: /items/caf".utf8)
        for byte in [0xe8, 0xe9] as [UInt8] {
            let server = try await ScriptedServer.start { _, _ in
                [.bytes(head + [byte] + Array("\r\nLast-Modified: \r\n\r\n".utf8))]
            }
            let answer = try await withUpstream {
                await $0.send(request(), to: UpstreamSettings(baseURL: server.baseURL))
            }
            #expect(answer.response?.location == "/items/caf\u{fffd}", "\(answer)")
        }
    }

    @Test func `skips an informational answer`() async throws {
        let response = try await answer(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"
                + "HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\n{\"id\":1}"
        )
        #expect(response.status == 201)
        #expect(response.text == #"{"id":1}"#)
    }

    @Test func `a body may be chunked or end with the connection`() async throws {
        let chunked = try await answer(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"id\r\n4\r\n\":1}\r\n0\r\n\r\n"
        )
        #expect(chunked.text == #"{"id":1}"#)
        let server = try await ScriptedServer.start { _, _ in [.send("HTTP/1.0 200 OK\r\n\r\n{\"id\":1}"), .close] }
        let ended = try await withUpstream {
            await $0.send(request(), to: UpstreamSettings(baseURL: server.baseURL))
        }
        #expect(ended.response?.text == #"{"id":1}"#)
    }

    @Test func `an empty body is no JSON`() async throws {
        #expect(try await answer("HTTP/1.1 204 No Content\r\n\r\n").json == nil)
        #expect(try await answer(body: "").json == nil)
        #expect(try await answer(body: " \r\n\t").json == nil)
    }

    @Test(arguments: [
        (" \r\n\t{\"a\": 1 }\n", #"{"a": 1 }"#), ("1", "1"), ("null", "null"), (#""x""#, #""x""#), ("[]", "[]"),
        ("{\"a\":1e400000}", nil), ("{\"a\":1,\"a\":2}", nil), (#"{"a":"\u0000"}"#, nil), (#"{"a":"\ud800"}"#, nil),
        ("<html>", nil), ("{\"a\":1", nil), ("{\"a\":1}{}", nil), ("{'a':1}", nil), ("\u{feff}{}", "{}"),
    ])
    func `returns only JSON that can be stored`(_ body: String, _ json: String?) async throws {
        let response = try await answer(body: body)
        #expect(response.status == 200)
        #expect(response.text == json)
    }

    @Test(arguments: [
        ("<html>Log in</html>", "", "is HTML", "<html>Log in</html>"), ("{\"a\":1", "", "is not JSON", "{\"a\":1"),
        ("x", "Content-Encoding: gzip\r\n", "is compressed (gzip)", ""),
        ("x", "Content-Encoding: identity\r\n", "is not JSON", "x"), ("\u{feff}\u{feff}{}", "", "is not JSON", "·{}"),
    ])
    func `describes a body that is not JSON by its cause and its first bytes`(
        _ body: String,
        _ headers: String,
        _ cause: String,
        _ excerpt: String
    ) async throws {
        let problem = try #require(try await answer(body: body, headers: headers).unusableBody)
        #expect(problem.reason.contains(cause), "\(problem.reason)")
        #expect(problem.excerpt == excerpt)
    }

    @Test func `uses JSON despite wrong headers`() async throws {
        for headers in ["Content-Encoding: gzip\r\n", "Content-Type: application/json; charset=utf-16\r\n"] {
            let response = try await answer(body: #"{"id":1}"#, headers: headers)
            #expect(response.text == #"{"id":1}"# && response.unusableBody == nil)
        }
    }

    @Test func `Content-Location replaces a missing Location`() async throws {
        let both = "Location: /c/1\r\nContent-Location: /c/2\r\n"
        #expect(try await answer(body: "", headers: both).location == "/c/1")
        #expect(try await answer(body: "", headers: "Content-Location: /c/2\r\n").location == "/c/2")
        let two = "Location: /c/1\r\nLocation: /c/2\r\nContent-Location: /c/3\r\n"
        #expect(try await answer(body: "", headers: two).location == nil)
        #expect(try await answer(body: "", headers: "Location: /c/1\r\nLocation: /c/1\r\n").location == "/c/1")
        let refused = try await answer("HTTP/1.1 404 Not Found\r\nContent-Location: /c/2\r\nContent-Length: 0\r\n\r\n")
        #expect(refused.location == nil)
    }

    @Test func `ignores deep JSON`() async throws {
        let deep = String(repeating: "[", count: 2_000) + String(repeating: "]", count: 2_000)
        #expect(try await answer(body: deep).json == nil)
    }

    @Test func `accepts a body of up to a mebibyte`() async throws {
        let longest = "\"" + String(repeating: "x", count: 1_048_574) + "\""
        #expect(try await answer(body: longest).json?.count == 1_048_576)
        let longer = try await answer(body: longest + " ", headers: "ETag: \"1\"\r\n")
        #expect(longer.status == 200)
        #expect(longer.etag == "\"1\"")
        #expect(longer.json == nil)
        #expect(longer.unusableBody?.reason == "is longer than 1048576 bytes")
    }

    @Test(arguments: [true, false])
    func `accepts a longer answer to a batch, in proportion to its parts`(_ hasLength: Bool) async throws {
        func answer(_ bytes: Int, to parts: Int) async throws -> UpstreamResponse? {
            let body = "\"" + String(repeating: "x", count: bytes - 2) + "\""
            let length = hasLength ? "Content-Length: \(bytes)\r\n" : "Connection: close\r\n"
            let server = try await ScriptedServer.start { _, _ in
                [.send("HTTP/1.1 200 OK\r\n\(length)\r\n\(body)"), .close]
            }
            return try await withUpstream { upstream in
                var batch = request()
                batch.partCount = parts
                let response = await upstream.send(batch, to: UpstreamSettings(baseURL: server.baseURL)).response
                #expect(response.map { _ in upstream.room.held <= 8 << 20 } == true)
                return response
            }
        }
        #expect(try await answer(6_000_000, to: 100)?.json?.count == 6_000_000)
        #expect(try await answer(1_200_000, to: 2)?.unusableBody?.isTooLong == true)
        // the limit is an eighth of the memory of all answers
        #expect(try await answer(8 << 20, to: 1_000)?.json?.count == 8 << 20)
        #expect(try await answer((8 << 20) + 1, to: 1_000)?.unusableBody?.isTooLong == true)
    }

    @Test func `stops reading a body that is too long`() async throws {
        let chunk = "10000\r\n" + String(repeating: "x", count: 65_536) + "\r\n"
        let server = try await ScriptedServer.start { _, _ in
            [.send("HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nETag: \"1\"\r\n\r\n"), .trickle(chunk)]
        }
        let answer = try await withUpstream {
            await $0.send(request(), to: UpstreamSettings(baseURL: server.baseURL))
        }
        #expect(answer.response?.status == 404)
        #expect(answer.response?.etag == "\"1\"")
        #expect(answer.response?.json == nil)
    }
}
