package import AsyncHTTPClient
package import Foundation
import Glibc
package import JSONText
import NIOCore
import NIOHTTP1
import Synchronization
import TestSupport
import Tokens

/// A gateway as in production: the built `sluice serve`, in a separate process that a test can kill.
package final class GatewayProcess: RunningGateway {
    package static let secret = "a secret that only the tests know, of decent length"
    package static let operatorToken = "an-operator-token-for-tests"

    /// The base URL of `/v1`, such as `http://127.0.0.1:8080`.
    package let address: String
    package let operations: String
    package let port: Int
    package let environment: [String: String]
    private let program: Mutex<Program>

    /// Starts a gateway on a database and waits until it is ready.
    package static func start(database: String, settings: [String: String] = [:]) async throws -> GatewayProcess {
        let gateway = try GatewayProcess(database: database, settings: settings)
        try await gateway.waitUntilReady()
        return gateway
    }

    /// Starts a gateway without waiting for anything.
    ///
    /// - Parameters:
    ///   - host: the gateway's address on this machine.
    ///   - ports: the ports of `/v1` and of the operations listener; nil for free ones.
    package init(
        database: String,
        settings: [String: String] = [:],
        host: String = "127.0.0.1",
        ports: (Int, Int)? = nil
    ) throws {
        let ports = if let ports { ports } else { try (LoopbackPort.reserve(), LoopbackPort.reserve()) }
        address = "http://\(host):\(ports.0)"
        operations = "http://\(host):\(ports.1)"
        port = ports.0
        let addresses = [
            "SLUICE_PUBLIC_ADDRESS": "\(host):\(ports.0)", "SLUICE_OPERATIONS_ADDRESS": "\(host):\(ports.1)",
        ]
        environment = Self.environment(database: database, ports: ports).merging(addresses) { $1 }
            .merging(settings) { $1 }
        program = Mutex(try Program(["serve"], environment: environment))
    }

    /// The environment variables of a gateway in tests.
    package static func environment(database: String, ports: (Int, Int)) -> [String: String] {
        [
            "SLUICE_DATABASE_URL": database,
            "SLUICE_PUBLIC_ADDRESS": "127.0.0.1:\(ports.0)",
            "SLUICE_OPERATIONS_ADDRESS": "127.0.0.1:\(ports.1)",
            "SLUICE_JWT_SECRET": secret,
            "SLUICE_OPERATOR_TOKEN": operatorToken,
            "SLUICE_LOG_LEVEL": "error",
            // long enough that nothing times out on a slow machine; a test of time-outs sets its own value
            "SLUICE_STATEMENT_SECONDS": "20",
        ]
    }

    private var current: Program { program.withLock { $0 } }

    /// The log since the last start.
    package var log: String { current.output + current.complaint }

    /// The log's lines.
    package var lines: [JSONValue] {
        current.output.split(separator: "\n").compactMap { try? JSONTree(parsing: Array($0.utf8)).root }
    }

    /// The log's messages.
    package var messages: [String] { lines.compactMap { $0["message"]?.string } }

    /// The exit status; nil while the gateway runs.
    package var status: Int32? { current.status }

    package func send(_ signal: Int32) { current.send(signal) }

    /// Waits for the end and returns the exit status.
    package func end() async throws -> Int32 { try await current.end() }

    /// Ends the process like a crash: nothing is flushed or completed.
    package func crash() async throws {
        let program = current
        program.send(SIGKILL)
        _ = try await program.end()
    }

    /// Starts the gateway again with the same configuration, after a crash or an orderly end. Does not wait until it is
    /// ready.
    package func restart() throws {
        let started = try Program(["serve"], environment: environment)
        program.withLock { $0 = started }
    }

    /// Terminates the process and returns its exit status.
    package func terminate() async throws -> Int32 {
        let program = current
        program.send(SIGTERM)
        return try await program.end()
    }

    /// Waits until `/readyz` reports readiness.
    package func waitUntilReady() async throws {
        try await waitUntil("a gateway is ready: \(log)", every: .milliseconds(20)) {
            if let status = current.status { throw Program.Failure("ended with \(status): \(log)") }
            let request = HTTPClientRequest(url: operations + "/readyz")
            let response = try? await Self.client.execute(request, timeout: .seconds(30))
            // so that the connection can be used again
            _ = try? await response?.body.collect(upTo: 65_536)
            return response?.status == .ok
        }
    }

    /// A token that every gateway of the tests accepts.
    package static func token(organization: UUID, user: UUID) async throws -> String {
        let issuer = try await TokenIssuer(configuration: TokenConfiguration(secret: Array(secret.utf8)))
        let now = Int64(Date.now.timeIntervalSince1970)
        return try await issuer.issue(organization: organization, user: user, ttlSeconds: 3_600, now: now)
    }

    /// An HTTP client that never retries a request automatically.
    package static let client = {
        var configuration = HTTPClient.Configuration(timeout: .init(connect: .seconds(30), read: .seconds(290)))
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 256
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()
}
