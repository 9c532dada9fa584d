import Foundation
import NIOCore
import SyncModel
import SyncUpstream
import TestSupport
import Testing

/// Failures in which the request was certainly not sent, and those of unknown outcome.
@Suite struct FailureTests {
    private let created = "HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\n{\"id\":1}"

    @Test func `a refused connection sends nothing`() async throws {
        let port = try LoopbackPort.reserve()
        let answer = try await withUpstream {
            await $0.send(request(), to: UpstreamSettings(baseURL: "http://127.0.0.1:\(port)"))
        }
        #expect(answer.notSent == "connection refused")
    }

    @Test func `an unknown host name sends nothing`() async throws {
        let answer = try await withUpstream {
            await $0.send(request(), to: UpstreamSettings(baseURL: "http://nowhere.invalid"))
        }
        #expect(answer.notSent == "the host's name could not be resolved")
    }

    @Test func `a failed TLS handshake sends nothing`() async throws {
        let server = try await NginxServer.start()
        let answer = try await withUpstream {
            let base = server.baseURL.replacing("http:", with: "https:")
            return await $0.send(request(), to: UpstreamSettings(baseURL: base))
        }
        #expect(answer.notSent == "no TLS connection could be established")
    }

    @Test func `a TLS handshake that never ends sends nothing`() async throws {
        // the server's script waits for an HTTP request, which a TLS client never sends
        let server = try await ScriptedServer.start { _, _ in [] }
        var configuration = HTTPUpstreamConfiguration()
        configuration.connectTimeout = .milliseconds(200)
        let answer = try await withUpstream(configuration) {
            let base = server.baseURL.replacing("http:", with: "https:")
            return await $0.send(request(), to: UpstreamSettings(baseURL: base))
        }
        #expect(answer.notSent == "connecting timed out")
    }

    /// A waiting request gets the connection as soon as an answer has ended. A single read may return only a little
    /// beyond that answer. Unless the client checks, the bytes after it would become the answer to the next request.
    @Test(arguments: [2_028, 14_316, 16_364, 30_700, 49_132, 63_468])
    func `discards an unsolicited answer`(length: Int) async throws {
        let poison = "HTTP/1.1 201 Created\r\nContent-Length: 11\r\n\r\n{\"id\":6666}"
        let head = "HTTP/1.1 201 Created\r\nContent-Length: \(length - 46)\r\n\r\n"
        let body = #"{"id":3}"#
        let whole = head + body.padding(toLength: length - head.utf8.count, withPad: " ", startingAt: 0)
        let answer = whole.replacing("Length: \(length - 46)", with: "Length: \(length - head.utf8.count)")
        let few = 30
        let (isAsked, ask) = AsyncStream.makeStream(of: Void.self)
        let server = try await ScriptedServer.start { number, _ in
            guard number == few else { return [.send(self.created)] }
            ask.yield()
            return [.wait(.milliseconds(300)), .send(answer + poison)]
        }
        var configuration = HTTPUpstreamConfiguration.patient
        configuration.connectionsPerHost = 1
        try await withUpstream(configuration) { upstream in
            let settings = UpstreamSettings(baseURL: server.baseURL)
            for _ in 0..<few {
                #expect(await upstream.send(request(), to: settings).response?.text == #"{"id":1}"#)
            }
            let first = Task { await upstream.send(request(), to: settings) }
            _ = await isAsked.first { _ in true }
            let others = (0..<3).map { _ in Task { await upstream.send(request(), to: settings) } }
            #expect(await first.value.response?.text?.hasPrefix(body) == true)
            for other in others {
                let answer = await other.value
                // the outcome of a request on that connection is unknown
                let isRight = answer.response?.text == #"{"id":1}"# || answer.unknown != nil || answer.notSent != nil
                #expect(isRight, "\(answer)")
            }
            // the client continues on another connection
            #expect(await upstream.send(request(), to: settings).response?.text == #"{"id":1}"#)
        }
    }

    @Test func `a time-out while waiting for a connection sends nothing`() async throws {
        let server = try await ScriptedServer.start { _, _ in [] }
        var configuration = HTTPUpstreamConfiguration()
        configuration.connectionsPerHost = 1
        try await withUpstream(configuration) { upstream in
            let settings = UpstreamSettings(baseURL: server.baseURL)
            let first = Task { await upstream.send(request(), to: settings) }
            _ = await server.next()
            let answer = await upstream.send(request(timeout: .milliseconds(100)), to: settings)
            #expect(answer.notSent != nil)
            first.cancel()
            #expect(await first.value.unknown == "cancelled")
        }
    }

    @Test func `an answer that never arrives is unknown`() async throws {
        let server = try await ScriptedServer.start { _, _ in [] }
        let answer = try await withUpstream {
            await $0.send(request(timeout: .milliseconds(1_500)), to: UpstreamSettings(baseURL: server.baseURL))
        }
        #expect(answer.unknown == "timed out after 1500 ms")
    }

    @Test func `a trickling body of a refusal is unknown after its time-out`() async throws {
        let server = try await ScriptedServer.start { _, _ in
            [.send("HTTP/1.1 422 Unprocessable\r\nContent-Length: 100000\r\n\r\n"), .trickle("1")]
        }
        let answer = try await withUpstream {
            await $0.send(request(timeout: .seconds(1)), to: UpstreamSettings(baseURL: server.baseURL))
        }
        #expect(answer.unknown == "timed out after 1 s")
    }

    /// A success counts from its head on, because the request took effect even if the body is incomplete.
    @Test func `a trickling body of a success is cut off after its time-out`() async throws {
        let server = try await ScriptedServer.start { _, _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nETag: \"1\"\r\n\r\n"), .trickle("1")]
        }
        try await withUpstream { upstream in
            let settings = UpstreamSettings(baseURL: server.baseURL)
            let answer = await upstream.send(request(timeout: .seconds(5)), to: settings)
            #expect(answer.response?.status == 200 && answer.response?.isCutOff == true, "\(answer)")
            #expect(answer.response?.etag == "\"1\"" && answer.response?.json == nil)
        }
    }

    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"id\"", nil),
        ("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n12", nil),
        ("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"id\":1}\r\n", #"{"id":1}"#),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", nil),
        ("HTTP/1.1 204 No Content\r\n\r\n", nil),
    ])
    func `a truncated success is a success`(_ text: String, _ json: String?) async throws {
        let server = try await ScriptedServer.start { _, _ in [.send(text), .close] }
        let answer = try await withUpstream {
            await $0.send(request(), to: UpstreamSettings(baseURL: server.baseURL))
        }
        let response = try #require(answer.response, "\(answer)")
        #expect((200...299).contains(response.status) && response.text == json)
        #expect(response.isCutOff == (response.status != 204))
    }

    @Test func `a trickling head is unknown after its time-out`() async throws {
        let server = try await ScriptedServer.start { _, _ in [.send("HTTP/1.1 200 OK\r\n"), .trickle("X-A: b\r\n")] }
        let answer = try await withUpstream {
            await $0.send(request(timeout: .seconds(1)), to: UpstreamSettings(baseURL: server.baseURL))
        }
        #expect(answer.unknown == "timed out after 1 s")
    }

    @Test func `a cancelled request is unknown`() async throws {
        let server = try await ScriptedServer.start { _, _ in [] }
        try await withUpstream { upstream in
            let sending = Task { await upstream.send(request(), to: UpstreamSettings(baseURL: server.baseURL)) }
            _ = await server.next()
            sending.cancel()
            #expect(await sending.value.unknown == "cancelled")
        }
    }

    @Test(arguments: [
        "",
        "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n",
        "HTTP/1.1 422 Unprocessable\r\nContent-Length: 8\r\n\r\n{\"id\"",
        "HTTP/1.1 503 Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"id\":1}\r\n",
    ])
    func `a connection that ends before the answer is unknown`(_ text: String) async throws {
        let server = try await ScriptedServer.start { _, _ in [.send(text), .close] }
        let answer = try await withUpstream {
            await $0.send(request(), to: UpstreamSettings(baseURL: server.baseURL))
        }
        #expect(answer.unknown?.isEmpty == false)
    }

    @Test(arguments: [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n1",
        "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
        "HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 000 X\r\nContent-Length: 1\r\n\r\n1",
        "HTTP/1.1 007 X\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 001 X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ])
    func `an answer that is not HTTP is unknown`(_ text: String) async throws {
        let server = try await ScriptedServer.start { _, _ in [.send(text)] }
        let answer = try await withUpstream {
            await $0.send(request(timeout: .seconds(60)), to: UpstreamSettings(baseURL: server.baseURL))
        }
        #expect(answer.unknown == "the response was not HTTP, or was incomplete")
    }

    @Test func `an answer with huge headers is unknown`() async throws {
        let header = "X-Huge: " + String(repeating: "x", count: 200_000)
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 200 OK\r\n\(header)\r\n\r\n")
        let answer = try await withUpstream {
            await $0.send(request(timeout: .seconds(60)), to: UpstreamSettings(baseURL: server.baseURL))
        }
        #expect(answer.unknown == "the response was not HTTP, or was incomplete")
    }

    @Test func `the client library repeats no request`() async throws {
        // the second request on a kept connection finds it closed, as after a server's idle time-out
        let created = created
        let server = try await ScriptedServer.start { number, _ in number == 0 ? [.send(created)] : [.close] }
        try await withUpstream { upstream in
            let settings = UpstreamSettings(baseURL: server.baseURL)
            #expect(await upstream.send(request(), to: settings).response?.status == 201)
            let second = await upstream.send(request(), to: settings)
            #expect(second.unknown == "the connection was closed before a response", "\(second)")
            let third = await upstream.send(request(), to: settings)
            #expect(third.unknown == "the connection was closed before a response", "\(third)")
        }
        var connections: [Int] = []
        for await request in server.requests {
            connections.append(request.connection)
            if connections.count == 3 { break }
        }
        #expect(connections == [0, 0, 1])
    }

    @Test func `a second answer affects no other request`() async throws {
        let created = created
        let server = try await ScriptedServer.start { number, _ in
            number == 0 ? [.send(created + "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")] : [.send(created)]
        }
        try await withUpstream { upstream in
            let settings = UpstreamSettings(baseURL: server.baseURL)
            #expect(await upstream.send(request(), to: settings).response?.status == 201)
            let second = await upstream.send(request(), to: settings)
            // the connection may be found broken before the request is sent, or during it
            #expect(second.response?.status != 500)
        }
    }

    @Test func `sends nothing after shutdown`() async throws {
        let server = try await ScriptedServer.start(answering: created)
        try await withUpstream { upstream in
            await upstream.shutdown()
            let answer = await upstream.send(request(), to: UpstreamSettings(baseURL: server.baseURL))
            #expect(answer.unready == "the gateway is shutting down")
        }
    }

    @Test func `a credential that cannot be signed sends nothing`() async throws {
        struct NoKey: Error {}
        let server = try await ScriptedServer.start(answering: created)
        let settings = UpstreamSettings(baseURL: server.baseURL, credential: .signed)
        let failed = try await withUpstream(sign: { _, _ in throw NoKey() }) { await $0.send(request(), to: settings) }
        #expect(failed.unready == "the credential could not be signed")
        let missing = try await withUpstream { await $0.send(request(), to: settings) }
        #expect(missing.unready == "no signing key is configured")
    }

    @Test(arguments: ["secret\r\nX-Evil: 1", "secret\u{0}", String(repeating: "x", count: 5_000)])
    func `a credential that is no valid header value sends nothing`(_ secret: String) async throws {
        let server = try await ScriptedServer.start(answering: created)
        let settings = UpstreamSettings(baseURL: server.baseURL, credential: .bearer(secret))
        let answer = try await withUpstream { await $0.send(request(), to: settings) }
        #expect(answer.unready == "the credential cannot be sent in a header")
    }
}
