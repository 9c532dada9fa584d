import NIOCore
import NIOHTTP1

/// Treats a response whose status is below 100 as missing.
///
/// RFC 9110, 15, defines no such status. The client beneath, which skips all heads below 200, ends the process when the
/// body of such a response arrives.
///
/// Its place is after the decoder of responses.
final class StatusCheck: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    private var isRefused = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isRefused { return }
        guard case .head(let head) = unwrapInboundIn(data), head.status.code < 100 else {
            return context.fireChannelRead(data)
        }
        isRefused = true
        context.fireErrorCaught(HTTPParserError.invalidStatus)
        context.close(promise: nil)
    }
}
