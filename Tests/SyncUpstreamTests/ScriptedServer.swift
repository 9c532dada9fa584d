import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// A TCP server with scripted behavior.
final class ScriptedServer: Sendable {
    /// The server's action after a request.
    enum Action: Sendable {
        case send(String)
        case bytes([UInt8])
        /// Delays the following actions.
        case wait(TimeAmount)
        /// A byte at intervals, until the connection ends.
        case trickle(String)
        case close
    }

    /// A received request.
    struct Received: Sendable {
        /// Counts the server's connections, from 0.
        let connection: Int
        /// Head and body.
        let text: String
        /// The number of pieces in which it arrived.
        var pieces = 1

        var lines: [String] { text.components(separatedBy: "\r\n") }
        var requestLine: String { lines.first ?? "" }
        var body: String { text.components(separatedBy: "\r\n\r\n").dropFirst().joined(separator: "\r\n\r\n") }

        /// The values of a header, in order.
        func header(_ name: String) -> [String] {
            lines.dropFirst().prefix { !$0.isEmpty }.compactMap { line in
                let parts = line.split(separator: ":", maxSplits: 1)
                guard parts.count == 2, parts[0].lowercased() == name.lowercased() else { return nil }
                return parts[1].trimmingCharacters(in: .whitespaces)
            }
        }
    }

    /// Answers the first request with `number` 0.
    typealias Script = @Sendable (_ number: Int, _ request: Received) -> [Action]

    /// Every request, in the order of arrival.
    let requests: AsyncStream<Received>
    let baseURL: String
    private let channel: any Channel

    private init(channel: any Channel, port: Int, requests: AsyncStream<Received>) {
        self.channel = channel
        self.requests = requests
        baseURL = "http://127.0.0.1:\(port)"
    }

    deinit { channel.close(promise: nil) }

    /// Starts a server that answers each request by a script.
    ///
    /// - Parameter early: whether the server answers as soon as a head has arrived, before the body.
    static func start(early: Bool = false, _ script: @escaping Script) async throws -> ScriptedServer {
        let (requests, continuation) = AsyncStream.makeStream(of: Received.self)
        let shared = Counters()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                let connection = shared.connections.wrappingAdd(1, ordering: .relaxed).oldValue
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        Connection(number: connection, early: early) { request in
                            let number = shared.requests.wrappingAdd(1, ordering: .relaxed).oldValue
                            continuation.yield(request)
                            return script(number, request)
                        }
                    )
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        return ScriptedServer(channel: channel, port: channel.localAddress?.port ?? 0, requests: requests)
    }

    /// Starts a server that answers every request in the same way.
    static func start(answering text: String) async throws -> ScriptedServer {
        try await start { _, _ in [.send(text)] }
    }

    /// The next request.
    func next() async -> Received? {
        await requests.first { _ in true }
    }

    private final class Counters: Sendable {
        let connections = Atomic(0)
        let requests = Atomic(0)
    }

    /// Collects requests with a `Content-Length`, or without one and without a body.
    private final class Connection: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let number: Int
        private let early: Bool
        private let respond: @Sendable (Received) -> [Action]
        private var text = ""
        private var pieces = 0

        init(number: Int, early: Bool, respond: @escaping @Sendable (Received) -> [Action]) {
            self.number = number
            self.early = early
            self.respond = respond
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            text += String(buffer: unwrapInboundIn(data))
            pieces += 1
            guard let end = text.range(of: "\r\n\r\n") else { return }
            let request = Received(connection: number, text: text, pieces: pieces)
            let length = early ? 0 : request.header("Content-Length").first.flatMap { Int($0) } ?? 0
            guard text[end.upperBound...].utf8.count >= length else { return }
            (text, pieces) = ("", 0)
            perform(respond(request)[...], context)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }

        private func perform(_ actions: ArraySlice<Action>, _ context: ChannelHandlerContext) {
            for (index, action) in zip(actions.indices, actions) {
                if case .wait(let time) = action {
                    context.eventLoop.assumeIsolated().scheduleTask(in: time) {
                        self.perform(actions[(index + 1)...], context)
                    }
                    return
                }
                perform(action, context)
            }
        }

        private func perform(_ action: Action, _ context: ChannelHandlerContext) {
            switch action {
            case .wait: break
            case .send(let text):
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
            case .bytes(let bytes):
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
            case .trickle(let text):
                let channel = context.channel
                channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(20)) { task in
                    guard channel.isActive else { return task.cancel() }
                    channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
                }
            case .close:
                // NIO drops what is not written yet when a channel is closed
                let channel = context.channel
                channel.writeAndFlush(ByteBuffer()).whenComplete { _ in channel.close(promise: nil) }
            }
        }
    }
}
