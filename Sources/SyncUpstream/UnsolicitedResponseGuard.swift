import NIOCore
import NIOHTTP1

/// Discards unsolicited responses, so that no organization receives the response to another organization's request.
///
/// When a response has ended, the client immediately uses the connection for the next request, even if the client has
/// received further data and has not processed these data. The client would treat such data as the response to the next
/// request. For this reason, the handler delays the end of a response until all data that arrived with the response
/// have been checked. A connection with surplus data gets no further request and is closed.
///
/// In HTTP/1.1, data that arrive later, during the next request, cannot be distinguished from a response (RFC 9112, 9.2
/// and 11.2).
///
/// The handler is placed between the decoder of responses and the client's own handler.
final class UnsolicitedResponseGuard: ChannelDuplexHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = HTTPClientRequestPart

    /// The end of a response, which is not passed on yet.
    private var end: HTTPClientResponsePart?
    /// Whether the connection received more data than requested.
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
        // the decoder throws an error for data without a request
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

    /// Marks the connection as unusable. The current response stays valid.
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

/// Delays each flush until the event loop has finished its current work.
///
/// Without this handler, the client would flush a request's head, body and end separately, each with a system call and
/// a packet.
///
/// The client reports a head as sent before it flushes the head, as ``ResponseCollector/isSent`` requires.
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

    /// Closes the connection after flushing earlier writes, as the connection would do without this handler.
    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if isDue { context.flush() }
        context.close(mode: mode, promise: promise)
    }
}
