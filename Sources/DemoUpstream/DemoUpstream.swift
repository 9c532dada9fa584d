import CommandSupport
import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import SyncHTTP
import SyncModel
import Synchronization

/// The demo's REST API on a port of this machine.
///
/// It accepts connections from the beginning. Its documents are lost when it ends.
final class DemoUpstream: Service {
    let address: ListenAddress
    /// Reports changes to a gateway.
    let webhook: DemoWebhook
    private let channel: any Channel
    private let report: @Sendable (String) -> Void

    private init(
        _ channel: any Channel,
        _ address: ListenAddress,
        _ webhook: DemoWebhook,
        report: @escaping @Sendable (String) -> Void
    ) {
        self.channel = channel
        self.address = address
        self.webhook = webhook
        self.report = report
    }

    /// - Parameters:
    ///   - port: on 127.0.0.1; 0 uses any free one.
    ///   - now: its clock.
    ///   - report: gets a line on each request.
    static func listen(
        port: Int,
        now: @escaping TimeSource = SystemClock.now,
        report: @escaping @Sendable (String) -> Void
    ) async throws(DemoUpstreamError) -> DemoUpstream {
        let webhook = DemoWebhook()
        let state = Shared(webhook, now: now)
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
            return DemoUpstream(channel, address, webhook, report: report)
        } catch {
            let place = ListenAddress(host: host, port: port)
            throw DemoUpstreamError(
                "\(place) cannot be used (\(error)); choose another port with --demo-upstream-port, or 0."
            )
        }
    }

    /// Waits for graceful shutdown, or for cancellation.
    func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.webhook.run(report: self.report) }
            try? await gracefulShutdown()
            group.cancelAll()
        }
        try? await channel.close()
    }

    private static let host = "127.0.0.1"

    /// The state that all connections share.
    private final class Shared: Sendable {
        private let collections: Mutex<DemoCollections>
        private let webhook: DemoWebhook

        init(_ webhook: DemoWebhook, now: @escaping TimeSource) {
            collections = Mutex(DemoCollections(now: now))
            self.webhook = webhook
        }

        func answer(_ request: DemoRequest, report: (String) -> Void) -> DemoAnswer {
            let answer = collections.withLock { collections in
                let answer = collections.answer(request)
                // under the lock: in the order in which they happened
                for change in collections.takeChanges() { webhook.record(change) }
                return answer
            }
            report(DemoLine.text(request, answer))
            return answer
        }
    }
}

/// Why the API cannot start, with an instruction.
struct DemoUpstreamError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
