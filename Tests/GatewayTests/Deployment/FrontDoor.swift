import AsyncHTTPClient
import Foundation
import GatewaySupport
import NIOCore
import NIOHTTP1
import NIOSSL
import TestSupport

/// Two gateways behind a reverse proxy that uses a configuration of docker/ with other addresses and paths.
final class FrontDoor: Sendable {
    enum Kind: String, CaseIterable, Sendable {
        case nginx, caddy
    }

    private let database: TestDatabase
    let gateways: [GatewayProcess]
    let proxy: TestServer
    let worker: SingleWorker
    /// `https://…` of the proxy.
    let address: String
    /// Trusts only the proxy's certificate; uses HTTP/2 if the proxy does.
    let client: HTTPClient

    /// - Parameter changes: texts of the proxy's configuration and their replacements.
    init(_ kind: Kind, settings: [String: String] = [:], changes: [String: String] = [:]) async throws {
        let database = try await LiveGateway.migratedDatabase()
        self.database = database
        let ports = (try LoopbackPort.reserve(), try LoopbackPort.reserve())
        // the same ports on two addresses, as two containers have them
        gateways = try ["127.0.0.1", "127.0.0.2"].map {
            try GatewayProcess(database: database.uri, settings: settings, host: $0, ports: ports)
        }
        for gateway in gateways { try await gateway.waitUntilReady() }
        worker = try await SingleWorker(gateways[0])
        let places = [
            "gateway-1:8080": "127.0.0.1:\(ports.0)", "gateway-2:8080": "127.0.0.2:\(ports.0)",
        ]
        .merging(changes) { $1 }
        proxy =
            switch kind {
            case .nginx: try await Self.nginx(places)
            case .caddy: try await Self.caddy(places, operationsPort: ports.1)
            }
        address = "https://localhost:\(proxy.port)"
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile("\(proxy.directory)/certificate"))
        var configuration = HTTPClient.Configuration(tlsConfiguration: tls)
        configuration.timeout = .init(connect: .seconds(60), read: .seconds(290))
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    deinit {
        client.shutdown { _ in }
    }

    /// A key and a self-signed certificate for `localhost`, in a directory.
    private static func certify(_ directory: String) throws {
        let openssl = Process()
        openssl.executableURL = URL(filePath: "/bin/sh")
        openssl.arguments = [
            "-c",
            """
            exec openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
                -addext subjectAltName=DNS:localhost -keyout '\(directory)/key' -out '\(directory)/certificate' 2>/dev/null
            """,
        ]
        try openssl.run()
        openssl.waitUntilExit()
        guard openssl.terminationStatus == 0 else { throw Program.Failure("openssl makes no certificate") }
    }

    private static func nginx(_ places: [String: String]) async throws -> TestServer {
        guard let nginx = TestServer.program("nginx") else { throw Program.Failure("no nginx") }
        return try await TestServer.start { directory, port in
            try certify(directory)
            let files = [
                "listen 8443 ": "listen \(port) ", "/run/secrets/tls_certificate": "\(directory)/certificate",
                "/run/secrets/tls_key": "\(directory)/key", "/tmp/nginx": "\(directory)/nginx",
                // a file of the user who started the test cannot be opened again
                "/dev/stdout": "\(directory)/access.log",
                // this machine allows few open files
                "worker_rlimit_nofile 32768;": "", "worker_connections 16384;": "worker_connections 1024;",
                // a slow machine may need longer to kill a gateway, and to detect that it is dead
                "proxy_next_upstream_timeout 10s": "proxy_next_upstream_timeout 290s",
            ]
            let text = try Repository.text("docker/nginx/nginx.conf").replacing(all: places.merging(files) { $1 })
            try text.write(toFile: "\(directory)/nginx.conf", atomically: false, encoding: .utf8)
            return try TestServer.withoutRights(directory)
                + [nginx, "-p", directory, "-c", "\(directory)/nginx.conf", "-e", "stderr", "-g", "daemon off;"]
        }
    }

    private static func caddy(_ places: [String: String], operationsPort: Int) async throws -> TestServer {
        guard let caddy = TestServer.program("caddy") else { throw Program.Failure("no Caddy") }
        return try await TestServer.start { directory, port in
            try certify(directory)
            let files = [
                "https://:8443": "https://:\(port)", "/run/secrets/tls_certificate": "\(directory)/certificate",
                "/run/secrets/tls_key": "\(directory)/key", "health_port 8081": "health_port \(operationsPort)",
                // a slow machine must not mark a gateway as unavailable
                "health_timeout 4s": "health_timeout 60s",
            ]
            let text = try Repository.text("docker/caddy/Caddyfile").replacing(all: places.merging(files) { $1 })
            try text.write(toFile: "\(directory)/Caddyfile", atomically: false, encoding: .utf8)
            return try TestServer.withoutRights(directory)
                + [
                    "env", "HOME=\(directory)", caddy, "run", "--config", "\(directory)/Caddyfile", "--adapter",
                    "caddyfile",
                ]
        }
    }

    // MARK: - Requests

    func send(
        _ method: HTTPMethod,
        _ path: String,
        headers: [(String, String)] = [],
        body: [UInt8]? = nil
    ) async throws -> Reply {
        try await version(method, path, headers: headers, body: body).reply
    }

    /// A reply, and its HTTP version.
    func version(
        _ method: HTTPMethod,
        _ path: String,
        headers: [(String, String)] = [],
        body: [UInt8]? = nil
    ) async throws -> (reply: Reply, version: HTTPVersion) {
        var request = HTTPClientRequest(url: address + path)
        request.method = method
        request.headers.add(name: "authorization", value: "Bearer \(worker.token)")
        if let body {
            request.headers.add(name: "content-type", value: "application/json")
            request.body = .bytes(body)
        }
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        let response = try await execute(request)
        let bytes = try await response.body.collect(upTo: 64 << 20)
        let reply = Reply(
            status: Int(response.status.code),
            headers: response.headers,
            body: Array(bytes.readableBytesView)
        )
        return (reply, response.version)
    }

    /// The client library occasionally fails if a response arrives before the end of the request's body, so the request
    /// is repeated.
    private func execute(_ request: HTTPClientRequest) async throws -> HTTPClientResponse {
        while true {
            do {
                return try await client.execute(request, timeout: .seconds(290))
            } catch let error as HTTPClientError where error == .bodyLengthMismatch {
                continue
            }
        }
    }

    func push(_ drafts: [Draft], headers: [(String, String)] = []) async throws -> Reply {
        try await send(.POST, "/v1/mutations", headers: headers, body: Array(worker.envelope(drafts).utf8))
    }
}
