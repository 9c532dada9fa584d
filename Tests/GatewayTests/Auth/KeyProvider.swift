import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A server that publishes an identity provider's keys. It returns the test's responses and counts requests.
final class KeyProvider: Sendable {
    /// The response.
    enum Manner: Sendable {
        case document(String, etag: String? = nil, headers: [(String, String)] = [])
        case status(Int, headers: [(String, String)] = [])
        /// Accepts the request and never answers.
        case silence
    }

    private struct State {
        var manner: Manner
        var requests: [HTTPRequestHead] = []
    }

    let url: String
    let port: Int
    private let channel: any Channel
    private let state: Mutex<State>

    /// Every request so far.
    var requests: [HTTPRequestHead] { state.withLock { $0.requests } }
    var count: Int { requests.count }

    func behave(_ manner: Manner) { state.withLock { $0.manner = manner } }

    /// - Parameter port: the port; 0 for a port that the system chooses.
    init(_ manner: Manner, port: Int = 0) async throws {
        let shared = Shared()
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.pipeline.configureHTTPServerPipeline().flatMapThrowing {
                    try channel.pipeline.syncOperations.addHandler(Handler(shared))
                }
            }
            .bind(host: "127.0.0.1", port: port)
            .get()
        self.port = channel.localAddress?.port ?? 0
        url = "http://127.0.0.1:\(self.port)/keys.json"
        state = Mutex(State(manner: manner))
        shared.provider.withLock { $0 = Weak(self) }
    }

    deinit { channel.close(promise: nil) }

    /// Ends the server, as an outage does.
    func end() async throws { try await channel.close() }

    private struct Weak: Sendable {
        weak let provider: KeyProvider?
        init(_ provider: KeyProvider) { self.provider = provider }
    }

    private final class Shared: Sendable {
        let provider = Mutex<Weak?>(nil)
    }

    private func answer(_ head: HTTPRequestHead) -> (HTTPResponseStatus, HTTPHeaders, String)? {
        state.withLock { state in
            state.requests.append(head)
            switch state.manner {
            case .silence: return nil
            case .status(let status, let headers): return (.init(statusCode: status), HTTPHeaders(headers), "")
            case .document(let text, let etag, let headers):
                var fields = HTTPHeaders(headers)
                if let etag { fields.add(name: "ETag", value: etag) }
                let isKnown = etag != nil && head.headers.first(name: "If-None-Match") == etag
                return (isKnown ? .notModified : .ok, fields, isKnown ? "" : text)
            }
        }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let shared: Shared
        private var head: HTTPRequestHead?

        init(_ shared: Shared) { self.shared = shared }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): self.head = head
            case .body: break
            case .end:
                guard let head, let provider = shared.provider.withLock({ $0?.provider }),
                    let (status, headers, text) = provider.answer(head)
                else { return }
                var fields = headers
                fields.add(name: "Content-Length", value: "\(text.utf8.count)")
                context.write(
                    wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: status, headers: fields))),
                    promise: nil
                )
                context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: text)))), promise: nil)
                context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
