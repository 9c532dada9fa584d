import NIOCore

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
