import Foundation

/// A real nginx. It stops with the last reference, or by ``end()``.
package final class NginxServer: Sendable {
    /// The URL of the server, without a trailing slash.
    package let baseURL: String
    private let server: WatchedServer

    private init(_ server: WatchedServer) {
        self.server = server
        baseURL = "http://127.0.0.1:\(server.port)"
    }

    /// Starts nginx.
    ///
    /// - Parameter configuration: the content of the `server` block in addition to `listen`.
    package static func start(configuration: String = "location / { return 200; }") async throws -> NginxServer {
        let paths =
            ["/usr/sbin", "/usr/local/sbin"]
            + (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        let found = paths.map { "\($0)/nginx" }.first { FileManager.default.isExecutableFile(atPath: $0) }
        guard let nginx = found else {
            throw TestCluster.Failure(description: "no nginx; run scripts/bootstrap --tests")
        }
        let server = try await WatchedServer.start { directory, port in
            let file = "\(directory)/nginx.conf"
            try text(configuration, port: port).write(toFile: file, atomically: false, encoding: .utf8)
            return [nginx, "-p", directory, "-c", file, "-e", "stderr"]
        }
        return NginxServer(server)
    }

    /// Stops it; connections break.
    package func end() async throws { try await server.end() }

    /// One process, in the foreground, with all of its files in its directory.
    private static func text(_ configuration: String, port: Int) -> String {
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \($0)_temp;" }
        return """
            daemon off;
            master_process off;
            pid nginx.pid;
            events { worker_connections 4096; }
            http {
                access_log off;
                keepalive_requests 1000000;
                \(folders.joined(separator: "\n    "))
                server {
                    listen 127.0.0.1:\(port);
                    \(configuration)
                }
            }
            """
    }
}

/// httpbin: returns the received request, or any other requested response.
package final class HTTPBinServer: Sendable {
    /// The URL of the server, without a trailing slash.
    package let baseURL: String
    private let server: WatchedServer

    private static let sharedServer = Task {
        HTTPBinServer(
            try await WatchedServer.start { _, port in
                [
                    try WatchedServer.python(), "-m", "waitress", "--listen=127.0.0.1:\(port)", "--threads=16",
                    "httpbin:app",
                ]
            }
        )
    }

    private init(_ server: WatchedServer) {
        self.server = server
        baseURL = "http://127.0.0.1:\(server.port)"
    }

    /// The server that all tests of this process share, started at the first call.
    package static func shared() async throws -> HTTPBinServer { try await sharedServer.value }
}

/// Kinto: a document store with a REST API, here in memory. It accepts any user and password (`Authorization: Basic`),
/// and each user has a bucket, `default`.
package final class KintoServer: Sendable {
    /// The server's URL, with `/v1` and without a trailing slash.
    package let baseURL: String
    private let server: WatchedServer

    private static let sharedServer = Task {
        KintoServer(
            try await WatchedServer.start { directory, port in
                let file = "\(directory)/kinto.ini"
                try text(port: port).write(toFile: file, atomically: false, encoding: .utf8)
                return [try WatchedServer.python(), "-c", program, "start", "--ini", file]
            }
        )
    }

    private init(_ server: WatchedServer) {
        self.server = server
        baseURL = "http://127.0.0.1:\(server.port)/v1"
    }

    /// The server that all tests of this process share, started at the first call.
    package static func shared() async throws -> KintoServer { try await sharedServer.value }

    /// The module cannot be run by its name, and the script that pip creates does not work after its folder is moved.
    private static let program = "import sys; from kinto.__main__ import main; sys.exit(main(sys.argv[1:]))"

    private static func text(port: Int) -> String {
        """
        [server:main]
        use = egg:waitress#main
        host = 127.0.0.1
        port = \(port)
        threads = 16

        [app:main]
        use = egg:kinto
        kinto.includes = kinto.plugins.default_bucket
        kinto.storage_backend = kinto.core.storage.memory
        kinto.cache_backend = kinto.core.cache.memory
        kinto.permission_backend = kinto.core.permission.memory
        kinto.userid_hmac_secret = of tests, and no secret
        kinto.bucket_create_principals = system.Authenticated
        multiauth.policies = basicauth
        """
    }
}
