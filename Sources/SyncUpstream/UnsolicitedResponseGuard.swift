import NIOCore
import NIOHTTP1

/// Discards unsolicited responses, so that one organization never receives another's response.
///
/// When a response has ended, the client immediately gives the connection to the next request, in the midst of the data
/// that were read: data behind the response would be taken for the next one. Here a response ends only after all data
/// that came with it have been checked, and a connection with surplus data takes no request and is closed. (HTTP/1.1
/// cannot distinguish data that arrive later, during the next request, from a response: RFC 9112, 9.2 and 11.2.)
///
/// Its place is between the decoder of responses and the client's own handler.
final class UnsolicitedResponseGuard: ChannelDuplexHandler {
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
        forward(context)
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // the decoder knows that nothing was asked for
        if end != nil { spoil(context) } else { context.fireErrorCaught(error) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        forward(context)
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        forward(context)
        context.fireChannelInactive()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard isSpoilt else { return context.write(data, promise: promise) }
        promise?.fail(ChannelError.ioOnClosedChannel)
    }

    /// The response stays valid; the connection is not used again.
    private func spoil(_ context: ChannelHandlerContext) {
        isSpoilt = true
        forward(context)
        context.close(promise: nil)
    }

    private func forward(_ context: ChannelHandlerContext) {
        guard let end else { return }
        self.end = nil
        context.fireChannelRead(wrapInboundOut(end))
    }
}

/// Postpones flushing to the end of the event loop's present work.
///
/// The client flushes a request's head, its body and its end separately, each a system call and a packet.
///
/// The client reports a head as sent before it can be on the wire, as it must (``ResponseCollector/isSent``).
final class SingleFlushHandler: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer

    private var context: ChannelHandlerContext?
    private var isDue = false

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func flush(context: ChannelHandlerContext) {
        guard !isDue else { return }
        isDue = true
        context.eventLoop.assumeIsolated().execute {
            self.isDue = false
            self.context?.flush()
        }
    }

    /// Writes made before are flushed, as they would be without this handler.
    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if isDue { context.flush() }
        context.close(mode: mode, promise: promise)
    }
}
