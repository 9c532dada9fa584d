import JSONText
import NIOCore
import NIOHTTP1
import NIOPosix
import Testing

/// A receiver that accepts all webhooks.
final class WebhookReceiver: Sendable {
    struct Received: Sendable {
        let head: HTTPRequestHead
        let body: [UInt8]

        var json: JSONValue? { try? JSONTree(parsing: body).root }
        func header(_ name: String) -> String? { head.headers.first(name: name) }
    }

    let url: String
    /// Every message as received.
    let received: AsyncStream<Received>
    private let channel: any Channel

    init() async throws {
        let (received, continuation) = AsyncStream.makeStream(of: Received.self)
        self.received = received
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.pipeline.configureHTTPServerPipeline().flatMapThrowing {
                    try channel.pipeline.syncOperations.addHandler(Handler { continuation.yield($0) })
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        url = "http://127.0.0.1:\(channel.localAddress?.port ?? 0)"
    }

    deinit { channel.close(promise: nil) }

    func next() async -> Received? { await received.first { _ in true } }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let take: @Sendable (Received) -> Void
        private var head: HTTPRequestHead?
        private var body: [UInt8] = []

        init(_ take: @escaping @Sendable (Received) -> Void) {
            self.take = take
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): (self.head, body) = (head, [])
            case .body(let part): body += part.readableBytesView
            case .end:
                guard let head else { return }
                take(Received(head: head, body: body))
                let answer = HTTPResponseHead(version: .http1_1, status: .noContent)
                context.write(wrapOutboundOut(.head(answer)), promise: nil)
                context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
