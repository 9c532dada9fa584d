import HTTPTypes
import HummingbirdCore
import Metrics
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import SyncModel

/// Enforces one connection's limits, on the connection's event loop.
///
/// The limits concern late bodies, clients that do not read, pipelined requests, and `Connection: close`. Almost all
/// requests arrive in one piece, and need no timer.
final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// The time for which the receiving half of the connection stays open after a response that ends the connection.
    private static let lingering = TimeAmount.seconds(2)
    /// The approximate number of bytes of large responses that the system may buffer while the client does not read.
    private static let systemBytes: SocketOptionValue = 262_144

    private var state: ConnectionState
    private var timer: (task: Scheduled<Void>, deadline: NIODeadline)?
    private var isReadHeld = false
    /// Whether the parser has failed. The HTTP library then writes a response, which lacks the gateway's header fields.
    private var isMalformed = false
    private var isGone = false
    private var onGone: (@Sendable () -> Void)?
    /// The memory reservation of the next response.
    private var hold: ResponseMemoryLease?
    private let slowClients: SlowClientMetrics
    private let listener: ListenerEnd

    init(_ configuration: HTTPConfiguration, _ slowClients: SlowClientMetrics, _ listener: ListenerEnd) {
        self.slowClients = slowClients
        self.listener = listener
        state = ConnectionState(
            bodyTimeout: TimeAmount(configuration.bodyTimeout),
            writeTimeout: TimeAmount(configuration.writeTimeout),
            shutdownTimeout: TimeAmount(configuration.shutdownTimeout),
            leastProgress: configuration.leastProgress
        )
    }

    /// Calls `action` as soon as the client's disconnection is detected.
    ///
    /// Only the last action is called, because a connection handles one request at a time.
    func whenGone(_ action: @escaping @Sendable () -> Void) {
        if isGone { action() } else { onGone = action }
    }

    /// Releases the memory of the response that is written next, once the operating system has accepted the response or
    /// the connection has ended.
    static func release(_ hold: ResponseMemoryLease, behindNextResponseOn channel: any Channel) async {
        let handing = channel.eventLoop.submit { releaseNow(hold, behindNextResponseOn: channel) }
        do { try await handing.get() } catch { hold.release() }
    }

    /// Releases memory like ``release(_:behindNextResponseOn:)``. Call it on the connection's event loop.
    static func releaseNow(_ hold: ResponseMemoryLease, behindNextResponseOn channel: any Channel) {
        do {
            let connection = try channel.pipeline.syncOperations.handler(type: ConnectionGuard.self)
            connection.hold?.release()
            connection.hold = hold
            // limits the memory in which the operating system buffers bytes for a client that does not read
            try channel.syncOptions?.setOption(.socketOption(.so_sndbuf), value: Self.systemBytes)
        } catch {
            // the pipeline may have ended, because the client's connection has ended
            hold.release()
        }
    }

    /// Ends the wait for a body that is still arriving. As after the body's time limit, the response is 408, and the
    /// connection ends. Does nothing if the body has arrived.
    static func cutBody(on channel: any Channel) {
        channel.eventLoop.execute {
            let operations = channel.pipeline.syncOperations
            guard let connection = try? operations.handler(type: ConnectionGuard.self),
                let context = try? operations.context(handlerType: ConnectionGuard.self)
            else { return }
            guard connection.state.cutBody() else { return }
            connection.slowClients.lateBody.increment()
            context.fireErrorCaught(BodyTimedOut())
        }
    }

    // MARK: - Life

    func handlerAdded(context: ChannelHandlerContext) {
        let options = context.channel.syncOptions
        try? options?.setOption(.recvAllocator, value: ReadBuffers())
        try? options?.setOption(.maxMessagesPerRead, value: 1)
        try? HeadCheck.check(on: context.pipeline)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.task.cancel()
        timer = nil
        hold?.release()
        hold = nil
        clientIsGone()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed:
            clientIsGone()
        case is ChannelShouldQuiesceEvent:
            state.shutDown(at: .now())
            scheduleTimer(context)
        default:
            break
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func clientIsGone() {
        isGone = true
        onGone?()
        onGone = nil
    }

    // MARK: - Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            state.readHead(closes: Self.closes(head.headerFields), at: .now())
        case .body:
            break
        case .end:
            state.readEnd()
        }
        if state.takesParts { context.fireChannelRead(data) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        scheduleTimer(context)
        context.fireChannelReadComplete()
    }

    func read(context: ChannelHandlerContext) {
        isReadHeld = !state.mayRead
        if !isReadHeld { context.read() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        isMalformed = true
        state.readNonsense()
        context.fireErrorCaught(error)
    }

    // MARK: - Responses

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head) where head.status.kind == .informational:
            context.write(data, promise: promise)
        case .head(let head) where isMalformed && head.headerFields[.xRequestID] == nil:
            _ = state.writeHead()
            writeMalformed(context, promise: promise)
        case .head(var head):
            if listener.isEnding { state.shutDown(at: .now()) }
            guard state.writeHead() else {
                context.write(data, promise: promise)
                return
            }
            head.headerFields[.connection] = "close"
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body:
            context.write(data, promise: promise)
        case .end:
            writeEnd(context, data, promise)
        }
    }

    private func writeEnd(_ context: ChannelHandlerContext, _ data: NIOAny, _ promise: EventLoopPromise<Void>?) {
        let promise = releasing(context, promise)
        switch state.writeEnd(at: .now()) {
        case .keep:
            context.write(data, promise: promise)
            if isReadHeld, state.mayRead {
                isReadHeld = false
                context.read()
            }
            scheduleTimer(context)
        case .close:
            context.writeAndFlush(data, promise: promise)
            close(context: context, mode: .all, promise: nil)
        case .closeAfterLingering:
            context.writeAndFlush(data, promise: promise)
            close(context: context, mode: .output, promise: nil)
            context.eventLoop.assumeIsolated().scheduleTask(in: Self.lingering) {
                self.close(context: context, mode: .all, promise: nil)
            }
        }
    }

    /// Closes the connection once the system has accepted all written data. This also applies if an idle timer or a
    /// shutdown closes the connection.
    ///
    /// Without this method, the channel would drop data that the client has not read yet.
    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        let unsent = unsent(context)
        guard mode != .input, unsent > 0, let sent = allSent(context) else {
            context.close(mode: mode, promise: promise)
            return
        }
        state.end(unsent: unsent, at: .now())
        scheduleTimer(context)
        sent.assumeIsolated().whenComplete { _ in context.close(mode: mode, promise: promise) }
    }

    /// Returns a future that completes when the system has accepted all data written so far.
    private func allSent(_ context: ChannelHandlerContext) -> EventLoopFuture<Void>? {
        guard let encoder = try? context.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self) else {
            return nil
        }
        // an empty write completes after all earlier writes
        let promise = context.eventLoop.makePromise(of: Void.self)
        encoder.writeAndFlush(NIOAny(IOData.byteBuffer(ByteBuffer())), promise: promise)
        return promise.futureResult
    }

    /// Returns a promise that releases the response's memory.
    private func releasing(_ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>?) -> EventLoopPromise<
        Void
    >? {
        guard let hold else { return promise }
        self.hold = nil
        let written = promise ?? context.eventLoop.makePromise()
        written.futureResult.whenComplete { _ in hold.release() }
        return written
    }

    /// Writes the response to a malformed request, in the same form as all other problems.
    private func writeMalformed(_ context: ChannelHandlerContext, promise: EventLoopPromise<Void>?) {
        let requestID = RequestID.make()
        let refusal = Refusal(Problem(.invalidRequest, "The request is not valid HTTP/1.1."))
        let answer = refusal.answer(requestID: requestID)
        var head = answer.response(to: .get, requestID: requestID, date: nil).head
        head.headerFields[.connection] = "close"
        context.write(wrapOutboundOut(.head(head)), promise: promise)
        context.write(wrapOutboundOut(.body(ByteBuffer(bytes: answer.body ?? []))), promise: nil)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        state.becameWritable(context.channel.isWritable, unsent: unsent(context), at: .now())
        scheduleTimer(context)
        context.fireChannelWritabilityChanged()
    }

    // MARK: - Deadlines

    /// Makes sure that the timer fires no later than the next deadline. A timer that fires before the deadline is
    /// scheduled again.
    private func scheduleTimer(_ context: ChannelHandlerContext) {
        guard let deadline = state.deadline else { return }
        if let timer {
            if timer.deadline <= deadline { return }
            timer.task.cancel()
        }
        let task = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { self.timerFired(context) }
        timer = (task, deadline)
    }

    private func timerFired(_ context: ChannelHandlerContext) {
        timer = nil
        switch state.timerFired(at: .now(), unsent: unsent(context)) {
        case .refuseBody:
            slowClients.lateBody.increment()
            context.fireErrorCaught(BodyTimedOut())
        case .close:
            slowClients.unread.increment()
            context.close(promise: nil)
        case .wait, .nothing: scheduleTimer(context)
        }
    }

    /// Returns the number of bytes that the client has not accepted.
    private func unsent(_ context: ChannelHandlerContext) -> Int {
        (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    /// Whether `close` is among the connection's options (RFC 9110, 7.6.1).
    private static func closes(_ fields: HTTPFields) -> Bool {
        guard let value = fields[.connection] else { return false }
        return value.utf8.split(separator: UInt8(ascii: ",")).contains { $0.trimmed.lowercased == "close" }
    }
}

extension TimeAmount {
    /// Converts the duration to whole nanoseconds.
    init(_ duration: Duration) {
        self = .nanoseconds(duration.nanoseconds)
    }
}
