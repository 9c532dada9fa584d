import Foundation
import Logging
import NIOCore
import NIOPosix
import SyncModel
import Synchronization
import Testing
import WebhooksFeature

@testable import SyncUpstream

/// Messages on real connections, and connections that are never made.
@Suite struct WebhookSenderTests {
    static let loopback = IPNetwork.list("127.0.0.0/8") ?? []

    static func sender(
        _ allowed: [IPNetwork] = loopback,
        _ addresses: @escaping @Sendable (String) async -> [IPAddress] = HostAddresses.of
    ) -> WebhookSender {
        WebhookSender(
            policy: AddressPolicy(allowed: allowed),
            version: "1",
            now: { noon },
            logger: Logger(label: "test"),
            addresses: addresses
        )
    }

    private func send(
        _ url: String,
        by sender: WebhookSender = sender(),
        body: String = "{}"
    ) async -> WebhookAnswer {
        let line = await sender.open(url)
        let answer = await sender.send(Array(body.utf8), headers: [("webhook-id", "1")], on: line)
        await line.close()
        return answer
    }

    @Test func `a message is a POST with exactly its bytes`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 204 No Content\r\n\r\n")
        #expect(await send(server.baseURL + "/hook/?a=b", body: #"{"a": 1}"#) == .status(204, retryAt: nil))
        let request = try #require(await server.next())
        #expect(request.requestLine == "POST /hook/?a=b HTTP/1.1")
        #expect(request.header("webhook-id") == ["1"])
        #expect(request.header("content-type") == ["application/json"])
        #expect(request.header("user-agent") == ["sluice/1"])
        #expect(request.body == #"{"a": 1}"#)
    }

    @Test func `a line sends several messages on kept connections`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        let sender = Self.sender()
        let line = await sender.open(server.baseURL)
        for _ in 0..<3 { #expect(await sender.send([], headers: [], on: line) == .status(200, retryAt: nil)) }
        await line.close()
        for _ in 0..<3 { #expect(await server.next()?.connection == 0) }
    }

    @Test func `does not follow redirects, and respects Retry-After`() async throws {
        let target = try await ScriptedServer.start(answering: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        let redirect = "HTTP/1.1 307 x\r\nlocation: \(target.baseURL)/\r\ncontent-length: 0\r\n\r\n"
        let server = try await ScriptedServer.start(answering: redirect)
        #expect(await send(server.baseURL) == .status(307, retryAt: nil))
        let busy = "HTTP/1.1 429 x\r\nretry-after: 30\r\ncontent-length: 0\r\n\r\n"
        let other = try await ScriptedServer.start(answering: busy)
        #expect(await send(other.baseURL) == .status(429, retryAt: noon.adding(seconds: 30)))
    }

    @Test func `an answer's status counts regardless of the body`() async throws {
        let long = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n" + String(repeating: "x", count: 10_000)
        let server = try await ScriptedServer.start { _, _ in [.send(long)] }
        #expect(await send(server.baseURL) == .status(200, retryAt: nil))
        let endless =
            "HTTP/1.1 500 x\r\ntransfer-encoding: chunked\r\n\r\n2000\r\n"
            + String(repeating: "x", count: 8_192)
        let other = try await ScriptedServer.start { _, _ in [.send(endless)] }
        #expect(await send(other.baseURL) == .status(500, retryAt: nil))
        let low = try await ScriptedServer.start(answering: "HTTP/1.1 099 x\r\ncontent-length: 1\r\n\r\n1")
        #expect(await send(low.baseURL) == .none("the response was not HTTP, or was incomplete"))
        let cut = try await ScriptedServer.start { _, _ in [.close] }
        let answer = await send(cut.baseURL)
        #expect(answer == .none("the connection was closed before a response"))
    }

    /// The server exists and would answer, but no connection arrives.
    @Test func `does not connect to an address that is not allowed`() async throws {
        let connections = Atomic(0)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                connections.add(1, ordering: .sequentiallyConsistent)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(channel.localAddress?.port)
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
            for scheme in ["http", "https"] {
                let answer = await send("\(scheme)://\(host):\(port)/", by: Self.sender([]))
                guard case .none(let reason) = answer else {
                    Issue.record("\(host): \(answer)")
                    continue
                }
                #expect(reason.contains("webhooks are not sent there") || reason.contains("could not be resolved"))
            }
        }
        #expect(connections.load(ordering: .sequentiallyConsistent) == 0)
        try await channel.close()
    }

    @Test func `a name with one forbidden address is refused`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        let port = server.baseURL.split(separator: ":").last ?? ""
        let (own, other) = (try #require(IPAddress("127.0.0.1")), try #require(IPAddress("10.0.0.1")))
        for list in [[own, other], [other, own], [other]] {
            guard case .none(let reason) = await send("http://hooks.example:\(port)/", by: Self.sender { _ in list })
            else {
                Issue.record("sent to \(list)")
                continue
            }
            #expect(reason.contains("10.0.0.1 is private"))
        }
    }

    /// The name is looked up once, and the sender connects to the address that was checked.
    @Test func `a later change of a name's address has no effect`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        let port = server.baseURL.split(separator: ":").last ?? ""
        let own = try #require(IPAddress("127.0.0.1"))
        let looks = Atomic(0)
        let sender = Self.sender { _ in
            looks.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue == 1 ? [own] : []
        }
        let line = await sender.open("http://rebinding.invalid:\(port)/")
        for _ in 0..<2 { #expect(await sender.send([], headers: [], on: line) == .status(200, retryAt: nil)) }
        await line.close()
        #expect(looks.load(ordering: .sequentiallyConsistent) == 1)
        #expect(await server.next()?.header("host") == ["rebinding.invalid:\(port)"])
    }

    @Test func `unresolvable names and invalid URLs are failures with a text`() async {
        #expect(
            await send("https://x.invalid/", by: Self.sender { _ in [] })
                == .none("the host's name could not be resolved")
        )
        #expect(await send("ftp://x") == .none("the URL must start with http:// or https://"))
        #expect(await HostAddresses.of("127.0.0.1").map(\.description) == ["127.0.0.1"])
        #expect(await HostAddresses.of("::1").map(\.description) == ["0:0:0:0:0:0:0:1"])
        #expect(await HostAddresses.of("name.invalid").isEmpty)
    }
}
