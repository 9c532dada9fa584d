import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import TestSupport

/// Serves one page on `/`, and accepts the page's result on `/result`.
final class PageServer: Sendable {
    /// The page's origin, as a browser sends it.
    let origin: String
    private let channel: any Channel
    private let result: Shared

    private final class Shared: Sendable {
        let text = Mutex<String?>(nil)
    }

    init(_ page: String) async throws {
        let result = Shared()
        self.result = result
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.pipeline.configureHTTPServerPipeline().flatMapThrowing {
                    try channel.pipeline.syncOperations.addHandler(Handler(page, result))
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        origin = "http://localhost:\(channel.localAddress?.port ?? 0)"
    }

    deinit { channel.close(promise: nil) }

    /// Returns the result that the page posts.
    func report() async throws -> String {
        try await waitUntil("the page reports") { self.result.text.withLock { $0 != nil } }
        return result.text.withLock { $0 } ?? ""
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let page: String
        private let result: Shared
        private var head: HTTPRequestHead?
        private var body = ByteBuffer()

        init(_ page: String, _ result: Shared) {
            self.page = page
            self.result = result
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): (self.head, body) = (head, ByteBuffer())
            case .body(var part): body.writeBuffer(&part)
            case .end: answer(context)
            }
        }

        private func answer(_ context: ChannelHandlerContext) {
            let isResult = head?.method == .POST && head?.uri == "/result"
            if isResult { result.text.withLock { $0 = String(buffer: body) } }
            let isPage = head?.method == .GET && head?.uri == "/"
            let text = isPage ? page : ""
            let fields: HTTPHeaders = [
                "Content-Type": "text/html; charset=utf-8", "Content-Length": "\(text.utf8.count)",
            ]
            let status: HTTPResponseStatus = isPage || isResult ? .ok : .notFound
            context.write(
                wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: status, headers: fields))),
                promise: nil
            )
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: text)))), promise: nil)
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
