import HTTPTypes
import HummingbirdCore
import NIOCore
import NIOHTTPTypes
import SyncModel
import Telemetry

/// Answers some requests directly on the connection's event loop, and passes all others to the connection's task.
///
/// A request is answered directly if it has arrived in one piece and its route supports direct answers. A direct answer
/// saves the task and its two streams. For a small push, these would cost as much as all other work for HTTP.
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

    /// Adds a handler before the connection's task, and after all handlers that enforce limits.
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

    /// Begins to answer a request directly, and returns whether this is possible. If the client does not read its
    /// responses, its requests are left to the task.
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

/// A request that has arrived completely, as direct endpoints receive it.
package struct DirectExchange: Sendable {
    let head: HTTPRequest
    let body: [UInt8]
    let eventLoop: any EventLoop
    /// Identifies the request in log lines.
    let context: LogContext
    /// The request's span; nil if the trace is not recorded.
    let trace: TraceContext?
    /// Called once with the response, on the event loop, after the endpoint has returned.
    let reply: @Sendable (Result<Answer, any Error>) -> Void

    /// The memory reservation of the response.
    let hold: ResponseMemoryLease
    /// The caller's user, after authentication.
    var user = LaneKey.unknown

    var headers: HTTPFields { head.headerFields }
}

// MARK: - DirectState

/// Decides which of a connection's requests can be answered directly. ``DirectHandler`` executes the decisions.
///
/// Responses are sent in the order of their requests. Therefore later requests wait while a request is being answered
/// directly. While a request that was passed on has no response yet, later requests are also passed on.
struct DirectState {
    /// The action on a part of a request.
    enum Action {
        case nothing
        case pass([HTTPRequestPart])
        /// A request is complete. Answer it directly, or pass it on.
        case answer(HTTPRequest, ByteBuffer?)
    }

    /// An event that occurred while a request was being answered directly.
    enum Waiting {
        case part(HTTPRequestPart)
        case error(any Error)
        /// The client does not send any more data.
        case inputClosed
    }

    private enum Phase {
        case passing
        /// The head, and possibly the body, was read.
        case gathering(HTTPRequest, ByteBuffer?)
        case answering
    }

    private var phase = Phase.passing
    /// The number of requests that were passed on and have no response yet.
    private var passedOn = 0
    private var waiting: [Waiting] = []

    mutating func read(_ part: HTTPRequestPart) -> Action {
        switch (phase, part) {
        case (.answering, _):
            waiting.append(.part(part))
            return .nothing
        case (.passing, .head(let head)) where passedOn == 0:
            phase = .gathering(head, nil)
            return .nothing
        case (.passing, .head):
            passedOn += 1
            return .pass([part])
        case (.passing, _):
            return .pass([part])
        case (.gathering(let head, nil), .body(let body)):
            phase = .gathering(head, body)
            return .nothing
        case (.gathering(let head, let body), .end(nil)):
            phase = .answering
            return .answer(head, body)
        case (.gathering, _):
            return .pass(giveUp() + [part])
        }
    }

    /// Records the end of the data that have arrived. An incomplete request is passed on.
    ///
    /// - Returns: the parts of the incomplete request.
    mutating func giveUp() -> [HTTPRequestPart] {
        guard case .gathering(let head, let body) = phase else { return [] }
        phase = .passing
        passedOn += 1
        return [.head(head)] + (body.map { [.body($0)] } ?? [])
    }

    /// Records that the complete request is passed on.
    mutating func refuse() {
        phase = .passing
        passedOn += 1
    }

    /// Whether an event must wait because a request is being answered directly.
    mutating func holds(_ event: Waiting) -> Bool {
        guard case .answering = phase else { return false }
        waiting.append(event)
        return true
    }

    /// Records the response to a request that was passed on.
    mutating func passedOnAnswered() {
        // the response to data that are not HTTP has no request
        passedOn = max(0, passedOn - 1)
    }

    /// Records that the direct response was written.
    ///
    /// - Returns: the data that waited for the response.
    mutating func answered() -> [Waiting] {
        phase = .passing
        defer { waiting = [] }
        return waiting
    }
}
