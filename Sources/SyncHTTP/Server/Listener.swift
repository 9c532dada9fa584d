import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization

/// Binds an address and passes its requests to a ``Responder``.
///
/// On graceful shutdown the listener stops accepting connections, closes idle connections, and returns once the
/// requests in progress are answered.
struct Listener: Service {
    let address: ListenAddress
    let maximumConnections: Int
    let configuration: HTTPConfiguration
    let responder: Responder
    let onRunning: @Sendable (ListenAddress) async -> Void
    private let end = ListenerEnd()

    func run() async throws {
        let responder = responder
        let server = try builder.buildServer(
            configuration: ServerConfiguration(
                address: .hostname(address.host, port: address.port),
                backlog: 1_024,
                availableConnectionsDelegate: .maximum(maximumConnections, logger: responder.logger)
            ),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: serverLogger,
            responder: { request, writer, channel in
                switch await responder.respond(to: request, on: channel) {
                case .response(let response):
                    do {
                        try await writer.write(response: response.head, body: response.body)
                    } catch {
                        // without this error, the parser's error would cause a second response
                        throw ResponseNotWritten()
                    }
                case .handover(let head, let successor):
                    try await successor(SocketHandover(of: channel, head: head))
                    // this error closes the other parts of the connection; the socket stays open
                    throw HandedOver()
                }
            },
            onServerRunning: { channel in
                await onRunning(bound(channel))
            }
        )
        try await withGracefulShutdownHandler {
            try await server.run()
        } onGracefulShutdown: { [end] in
            end.begin()
        }
    }

    private var builder: HTTPServerBuilder {
        let (configuration, own, end) = (configuration, responder, end)
        return HTTPServerBuilder { responder in
            EventLoopBound(
                base: HTTP1Channel(
                    responder: responder,
                    configuration: HTTP1Channel.Configuration(
                        additionalChannelHandlers: [ConnectionGuard(configuration, own.budgets.slowClients, end)],
                        idleTimeout: TimeAmount(configuration.idleTimeout),
                        httpDecoderConfiguration: .init(
                            maxHeaderFieldSize: 16_384,
                            maxHeaderListSize: 32_768,
                            maxHeaderFieldCount: 100
                        )
                    )
                )
            ) { try DirectHandler.add(to: $0, own) }
        }
    }

    /// The logger of the server. Its level suppresses the server's own message about listening, because the caller logs
    /// the address and its purpose.
    private var serverLogger: Logger {
        var logger = responder.logger
        if logger.logLevel == .info { logger.logLevel = .notice }
        return logger
    }

    /// Returns the server's address, in which the system may have chosen the port.
    private func bound(_ channel: any Channel) -> ListenAddress {
        guard let local = channel.localAddress, let port = local.port else { return address }
        return ListenAddress(host: local.ipAddress ?? address.host, port: port)
    }
}

/// Whether a listener is ending.
///
/// Each connection receives the event about the end on its own event loop, possibly a moment after the listener has
/// closed. A response in this moment must announce the end of its connection, too.
final class ListenerEnd: Sendable {
    private let hasBegun = Atomic(false)

    var isEnding: Bool { hasBegun.load(ordering: .relaxed) }

    func begin() { hasBegun.store(true, ordering: .relaxed) }
}

/// Signals that another owner uses the connection's socket from now on.
private struct HandedOver: Error {}

/// Signals that the connection ended while a response was being written.
private struct ResponseNotWritten: Error {}
