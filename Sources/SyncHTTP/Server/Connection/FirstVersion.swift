import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1

/// Lets a client of HTTP/1.0 have its connection closed behind the answer, which is how it knows that this was all:
/// further on, nobody can tell the version of a request.
///
/// It looks at a connection's first request and goes.
final class FirstVersion: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    /// Puts one where versions are still known.
    static func look(on pipeline: ChannelPipeline) throws {
        let operations = pipeline.syncOperations
        let codec = try operations.handler(type: HTTP1ToHTTPServerCodec.self)
        try operations.addHandler(FirstVersion(), position: .before(codec))
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data) else {
            context.fireChannelRead(data)
            return
        }
        if head.version.major == 1, head.version.minor == 0 {
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        }
        context.fireChannelRead(wrapInboundOut(.head(head)))
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }
}
