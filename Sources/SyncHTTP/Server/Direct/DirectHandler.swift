import HTTPTypes
import HummingbirdCore
import NIOCore
import NIOHTTPTypes

/// Answers requests directly that have arrived in one piece, if their routes can; passes all others on to the
/// connection's task. Runs on the connection's event loop.
///
/// The way through the task, with its streams in and out, costs as much as all else that HTTP needs for a small push.
final class DirectHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let responder: Responder
    private var state = DirectState()
    private var context: ChannelHandlerContext?

    init(_ responder: Responder) {
        self.responder = responder
    }

    /// Adds a handler in front of the connection's task, and behind all that keeps its limits.
    static func add(to pipeline: ChannelPipeline, _ responder: Responder) throws {
        let operations = pipeline.syncOperations
        let limits = try operations.handler(type: HTTPConnectionStateHandler.self)
        try operations.addHandler(DirectHandler(responder), position: .after(limits))
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    // MARK: - Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        read(unwrapInboundIn(data), context)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        pass(state.giveUp(), context)
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if !state.holds(.error(error)) { passError(error, context) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event as? ChannelEvent == .inputClosed, state.holds(.inputClosed) { return }
        context.fireUserInboundEventTriggered(event)
    }

    private func read(_ part: HTTPRequestPart, _ context: ChannelHandlerContext) {
        switch state.read(part) {
        case .nothing: break
        case .pass(let parts): pass(parts, context)
        case .answer(let head, let body):
            if answers(head, body, context) { return }
            state.refuse()
            context.fireChannelRead(wrapInboundOut(.head(head)))
            if let body { context.fireChannelRead(wrapInboundOut(.body(body))) }
            context.fireChannelRead(wrapInboundOut(part))
        }
    }

    private func pass(_ parts: [HTTPRequestPart], _ context: ChannelHandlerContext) {
        for part in parts { context.fireChannelRead(wrapInboundOut(part)) }
    }

    private func passError(_ error: any Error, _ context: ChannelHandlerContext) {
        pass(state.giveUp(), context)
        context.fireErrorCaught(error)
    }

    // MARK: - Answers

    /// Whether a request will be answered directly. A client that does not read has to wait for its task.
    private func answers(_ head: HTTPRequest, _ body: ByteBuffer?, _ context: ChannelHandlerContext) -> Bool {
        guard context.channel.isWritable else { return false }
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        return responder.respondsDirectly(to: head, body, on: context.channel) { response, body in
            handler.value.write(response, body)
        }
    }

    private func write(_ head: HTTPResponse, _ body: ByteBuffer?) {
        // the connection may have ended
        guard let context else { return }
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if let body { context.write(wrapOutboundOut(.body(body)), promise: nil) }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        resume(state.answered(), context)
    }

    private func resume(_ waiting: [DirectState.Waiting], _ context: ChannelHandlerContext) {
        guard !waiting.isEmpty else { return }
        for event in waiting {
            switch event {
            case .part(let part): read(part, context)
            case .error(let error): errorCaught(context: context, error: error)
            case .inputClosed: userInboundEventTriggered(context: context, event: ChannelEvent.inputClosed)
            }
        }
        channelReadComplete(context: context)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) { state.passedOnAnswered() }
        context.write(data, promise: promise)
    }
}
