import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// An HTTP server whose responses the test defines.
final class ListServer: Sendable {
    enum Answer: Sendable {
        case whole(Int, HTTPHeaders, String)
        /// A body that never ends.
        case endless(HTTPHeaders)
    }

    /// The server's URL, without a trailing slash.
    let baseURL: String
    private let channel: any Channel
    private let seen: Seen

    private final class Seen: Sendable {
        let heads = Mutex([HTTPRequestHead]())
    }

    /// The received requests, in order.
    var requests: [HTTPRequestHead] { seen.heads.withLock { $0 } }

    init(_ answer: @escaping @Sendable (HTTPRequestHead, _ number: Int) -> Answer) async throws {
        let seen = Seen()
        self.seen = seen
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(
                        Handler { head in
                            let number = seen.heads.withLock { heads in
                                heads.append(head)
                                return heads.count
                            }
                            return answer(head, number)
                        }
                    )
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        baseURL = "http://127.0.0.1:\(channel.localAddress?.port ?? 0)"
    }

    deinit { channel.close(promise: nil) }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let answer: (HTTPRequestHead) -> Answer

        init(_ answer: @escaping @Sendable (HTTPRequestHead) -> Answer) {
            self.answer = answer
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard case .head(let head) = unwrapInboundIn(data) else { return }
            switch answer(head) {
            case .whole(let status, let fields, let body):
                var fields = fields
                if !fields.contains(name: "content-length"), status != 304 {
                    fields.add(name: "content-length", value: "\(body.utf8.count)")
                }
                write(status, fields, context)
                context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: body)))), promise: nil)
                context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            case .endless(let fields):
                write(200, fields, context)
                context.flush()
                Self.proceed(context.channel)
            }
        }

        private func write(_ status: Int, _ fields: HTTPHeaders, _ context: ChannelHandlerContext) {
            let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: status), headers: fields)
            context.write(wrapOutboundOut(.head(head)), promise: nil)
        }

        private static func proceed(_ channel: any Channel) {
            let part = HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(repeating: 0x20, count: 65_536)))
            channel.writeAndFlush(part).whenSuccess {
                if channel.isActive { proceed(channel) }
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
