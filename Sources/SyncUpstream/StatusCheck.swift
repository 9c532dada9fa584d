import NIOCore
import NIOHTTP1

/// Takes an answer whose status is below 100 for none: RFC 9110, 15, knows none such, and the client beneath, which
/// passes over all heads below 200, ends the process when the body of such an answer comes.
///
/// Stands behind the decoder of responses.
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
