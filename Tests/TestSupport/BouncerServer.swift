import Foundation
import Glibc

/// A real PgBouncer in front of a test cluster. It stops with the last reference, or by ``end()``.
package final class BouncerServer: Sendable {
    /// When a server's session is passed to another client.
    package enum Mode: String, Sendable, CaseIterable {
        case session, transaction, statement
    }

    private let server: WatchedServer

    /// Its path; nil if it is not installed.
    private static let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }
    /// Whether it is installed.
    package static let isInstalled = program != nil

    private init(_ server: WatchedServer) {
        self.server = server
    }

    /// Starts a PgBouncer in front of the server of a database, for all of its databases.
    ///
    /// - Parameter port: the port on which it listens; nil for a free port.
    package static func start(_ mode: Mode, before database: TestDatabase, port: Int? = nil) async throws
        -> BouncerServer
    {
        guard let program else { throw TestCluster.Failure(description: "no PgBouncer; run scripts/bootstrap --tests") }
        let words = URLComponents(string: database.uri)?.queryItems ?? []
        let host = words.first { $0.name == "host" }?.value ?? ""
        let server = try await WatchedServer.start(port: port) { directory, port in
            let text = """
                [databases]
                * = host=\(host) port=5432
                [pgbouncer]
                listen_addr = 127.0.0.1
                listen_port = \(port)
                unix_socket_dir =
                auth_type = trust
                auth_file = \(directory)/users
                pool_mode = \(mode.rawValue)
                default_pool_size = 40
                max_client_conn = 200
                """
            try text.write(toFile: "\(directory)/bouncer.ini", atomically: false, encoding: .utf8)
            try #""postgres" """#.write(toFile: "\(directory)/users", atomically: false, encoding: .utf8)
            // like PostgreSQL, PgBouncer does not run as root
            return try ServerProcess.handOver(directory) + [program, "\(directory)/bouncer.ini"]
        }
        return BouncerServer(server)
    }

    /// The URI of a database through it.
    package func uri(of database: TestDatabase) -> String {
        let name = URLComponents(string: database.uri)?.path.dropFirst() ?? ""
        return "postgresql://postgres@127.0.0.1:\(server.port)/\(name)"
    }

    /// Stops it; connections break.
    package func end() async throws { try await server.end() }
}
