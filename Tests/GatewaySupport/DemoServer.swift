import CommandSupport
import SyncHTTP
package import SyncModel

@testable import DemoUpstream

/// The REST API of `sluice dev --demo-upstream`, in this process on its own port. It stops with the last reference.
package final class DemoServer: Sendable {
    package let port: Int
    private let service: Task<Void, any Error>

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - report: receives a line for each request.
    ///   - now: its clock; nil for the system's.
    package static func start(
        report: @escaping @Sendable (String) -> Void = { _ in },
        now: TimeSource? = nil
    ) async throws -> DemoServer {
        DemoServer(try await DemoUpstream.listen(port: 0, now: now ?? SystemClock.now, report: report))
    }

    private init(_ upstream: DemoUpstream) {
        port = upstream.address.port
        service = Task { try await upstream.run() }
    }

    deinit { service.cancel() }

    /// The server's URL, without a trailing slash.
    package var baseURL: String { "http://127.0.0.1:\(port)" }
}
