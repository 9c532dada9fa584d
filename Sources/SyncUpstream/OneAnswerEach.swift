import NIOCore
import NIOHTTP1

/// Sees that nothing which an upstream sends unasked is taken for the answer to a request: an upstream that answers once
/// too often would give another organization's user what belongs to nobody.
///
/// The client gives a connection to the next request the moment that an answer has ended, and that is in the midst of
/// what was read: what is behind the answer would be the next request's. Here an answer ends only when all that came with
/// it has been looked at, and a connection on which more came takes no request and is closed. (What comes later, while
/// the next request is on its way, HTTP/1.1 cannot tell from an answer: RFC 9112, 9.2 and 11.2.)
///
/// Stands between the decoder of responses and the client's own handler.
final class OneAnswerEach: ChannelDuplexHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = HTTPClientRequestPart

    /// The end of an answer that is not handed on yet.
    private var end: HTTPClientResponsePart?
    /// Whether more came than was asked for.
    private var isSpoilt = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isSpoilt, end == nil else { return spoil(context) }
        let part = unwrapInboundIn(data)
        if case .end = part { end = part } else { context.fireChannelRead(data) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        handOn(context)
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // the decoder knows that nothing was asked for
        if end != nil { spoil(context) } else { context.fireErrorCaught(error) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        handOn(context)
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        handOn(context)
        context.fireChannelInactive()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard isSpoilt else { return context.write(data, promise: promise) }
        promise?.fail(ChannelError.ioOnClosedChannel)
    }

    /// The answer is what it is; the connection is done with.
    private func spoil(_ context: ChannelHandlerContext) {
        isSpoilt = true
        handOn(context)
        context.close(promise: nil)
    }

    private func handOn(_ context: ChannelHandlerContext) {
        guard let end else { return }
        self.end = nil
        context.fireChannelRead(wrapInboundOut(end))
    }
}
