import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import SyncHTTP
import Synchronization

/// The demo's REST API on a port of this machine. It takes connections from the first moment on; as a service it ends
/// with the gateway, and its documents are lost.
final class DemoUpstream: Service {
    let address: ListenAddress
    private let channel: any Channel

    private init(_ channel: any Channel, _ address: ListenAddress) {
        self.channel = channel
        self.address = address
    }

    /// - Parameters:
    ///   - port: on 127.0.0.1; 0 takes any.
    ///   - report: gets a line on each request.
    static func listen(
        port: Int,
        report: @escaping @Sendable (String) -> Void
    ) async throws(DevelopmentError) -> DemoUpstream {
        let state = Shared()
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withErrorHandling: true)
                    let connection = DemoConnection { request in state.answer(request, report: report) }
                    try channel.pipeline.syncOperations.addHandler(connection)
                }
            }
        do {
            let channel = try await bootstrap.bind(host: host, port: port).get()
            let address = ListenAddress(host: host, port: channel.localAddress?.port ?? port)
            return DemoUpstream(channel, address)
        } catch {
            let place = ListenAddress(host: host, port: port)
            throw DevelopmentError(
                "\(place) cannot be used (\(error)); choose another port with --demo-upstream-port, or 0 for any."
            )
        }
    }

    /// Waits for graceful shutdown, or for cancellation.
    func run() async throws {
        try? await gracefulShutdown()
        try? await channel.close()
    }

    private static let host = "127.0.0.1"

    /// The state that all connections share.
    private final class Shared: Sendable {
        private let collections = Mutex(DemoCollections())

        func answer(_ request: DemoRequest, report: (String) -> Void) -> DemoAnswer {
            let answer = collections.withLock { $0.answer(request) }
            report(DemoLine.text(request, answer))
            return answer
        }
    }
}
