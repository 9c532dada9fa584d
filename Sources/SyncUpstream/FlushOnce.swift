import NIOCore

/// Puts off flushing to the end of what the event loop does at the moment. The client flushes a request's head, its body
/// and its end by themselves, each a system call and a packet.
///
/// The client reports a head as sent before it can be on the wire, as it must (``ResponseCollector/isSent``).
final class FlushOnce: ChannelOutboundHandler {
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

    /// What was written before goes out, as it would have without this.
    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if isDue { context.flush() }
        context.close(mode: mode, promise: promise)
    }
}
