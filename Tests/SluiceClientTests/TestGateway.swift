import Foundation
import GatewaySupport
import TestSupport

@testable import SluiceClient

/// A gateway in this process, accessed as a phone does.
final class TestGateway: Sendable {
    private let running: Locked<LiveGateway>
    private let upstream: DemoServer?
    /// A proxy between the gateway and the upstream. Requests arrive late, and responses are reordered, so that the
    /// outcome of a later request reaches a lane first.
    private let line: FaultyProxy?

    private var gateway: LiveGateway { running.withLock { $0 } }

    var url: URL { URL(string: gateway.address) ?? URL(filePath: "/") }

    private init(_ gateway: LiveGateway, _ upstream: DemoServer?) throws {
        running = Locked(gateway)
        self.upstream = upstream
        line = try upstream.map {
            try FaultyProxy(to: $0.port, faults: [.delay, .delayAnswer], rate: 0.7, SystemRandomNumberGenerator())
        }
    }

    /// - Parameters:
    ///   - forwards: whether organizations have the demo upstream, to which their mutations are forwarded.
    ///   - report: receives a line for each request to the demo upstream.
    static func start(
        forwards: Bool = false,
        report: @escaping @Sendable (String) -> Void = { _ in }
    ) async throws -> TestGateway {
        // lanes always run, because settlements are processed in lane order
        try TestGateway(
            try await LiveGateway.start(forwards: true),
            forwards ? try await DemoServer.start(report: report) : nil
        )
    }

    /// A separate organization for a test.
    func makeOrganization(_ settings: String = "{}") async throws -> UUID {
        let id = UUID()
        try await gateway.makeOrganization(id, settings: settings)
        if let line {
            try await gateway.operate("/upstream", of: id, #"{"base_url":"http://127.0.0.1:\#(line.port)"}"#)
        }
        return id
    }

    /// Registers a type.
    func register(_ type: String, _ body: String, in organization: UUID) async throws {
        try await gateway.operate("/entity-types/\(type)", of: organization, body)
    }

    /// Starts to erase a user, and waits until the erasure has finished.
    func erase(_ user: UUID, in organization: UUID) async throws { try await gateway.erase(user, in: organization) }

    /// Restores the database from a backup, as an operator does. Afterwards the gateway has another address.
    func restore(_ backup: GatewayBackup) async throws {
        let database = try await backup.restore()
        let command = try await Program.run(["after-restore"], environment: ["SLUICE_DATABASE_URL": database.uri])
        guard command.status == 0 else { throw Program.Failure(command.complaint) }
        let restored = try await LiveGateway.start(on: database, forwards: true)
        // the backup can contain leases of workers that ended with the earlier gateway
        restored.clock.advance(seconds: 130)
        running.withLock { $0 = restored }
    }

    func backup() async throws -> GatewayBackup { try await GatewayBackup(of: gateway.database) }

    func token(organization: UUID, user: UUID) async throws -> String {
        try await gateway.token(organization: organization, user: user)
    }
}

/// A dump of a gateway's database. It is deleted with the last reference.
final class GatewayBackup: Sendable {
    private let file = FileManager.default.temporaryDirectory.appending(path: "gateway-\(UUID().uuidString).dump").path

    init(of database: TestDatabase) async throws {
        try await Self.run("pg_dump -Fc --file '\(file)' '\(database.uri)'")
    }

    deinit { try? FileManager.default.removeItem(atPath: file) }

    func restore() async throws -> TestDatabase {
        let database = try await TestDatabase.make()
        try await Self.run("pg_restore --exit-on-error --dbname '\(database.uri)' '\(file)'")
        return database
    }

    private static func run(_ command: String) async throws {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        let program = try Program(shell: "exec \(root)/\(versions.compactMap { Int($0) }.max() ?? 15)/bin/\(command)")
        let status = try await program.end()
        guard status == 0 else { throw Program.Failure(program.complaint) }
    }
}
