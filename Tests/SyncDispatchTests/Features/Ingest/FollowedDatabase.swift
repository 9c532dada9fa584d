import Foundation
import JSONText
import Logging
import Postgres
import ServiceLifecycle
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import IngestFeature
@testable import SyncDispatch
@testable import SyncStore

/// An organization's own database, on a server that keeps a logical log, with a publication of its table `contact`.
final class FollowedDatabase: Sendable {
    /// One server for all tests that do not stop their server.
    private static let shared = Task { try await server() }

    let cluster: TestCluster
    let name: String
    /// Unique on the server.
    let slot: String
    let connection: Connection

    static func server() async throws -> TestCluster {
        let cluster = try await TestCluster.dedicated()
        let connection = try await Connection.open(configuration(cluster.uri()))
        for setting in ["wal_level = logical", "max_replication_slots = 200", "max_wal_senders = 200"] {
            try await connection.execute(script: "ALTER SYSTEM SET \(setting)")
        }
        await connection.closeAndWait()
        try await cluster.restart()
        return cluster
    }

    static func configuration(_ uri: String) -> ConnectionConfiguration {
        ConnectionConfiguration(uri: uri, connectTimeout: Waiting.limit, statementTimeout: .zero)
    }

    /// - Parameters:
    ///   - cluster: the server; nil for the one that the tests share.
    ///   - tables: SQL that makes tables and the publication `sluice`.
    init(
        on cluster: TestCluster? = nil,
        _ tables: String = """
        CREATE TABLE contact (id int8 PRIMARY KEY, name text, data jsonb, big text);
        CREATE PUBLICATION sluice FOR TABLE contact;
        """,
        makesSlot: Bool = true
    ) async throws {
        let cluster = if let cluster { cluster } else { try await Self.shared.value }
        self.cluster = cluster
        let suffix = UUID().uuidString.lowercased().prefix(8)
        name = "their_\(suffix)"
        slot = "slot_\(suffix)"
        let maker = try await Connection.open(Self.configuration(cluster.uri()))
        try await maker.execute(script: "CREATE DATABASE \"\(name)\"")
        await maker.closeAndWait()
        connection = try await Connection.open(Self.configuration(cluster.uri(database: name)))
        try await connection.execute(script: tables)
        if makesSlot { try await run("SELECT pg_create_logical_replication_slot('\(slot)', 'pgoutput')") }
    }

    func run(_ sql: String) async throws { try await connection.execute(script: sql) }

    /// Runs SQL on a new connection, for use after a restart of the server.
    func rerun(_ sql: String) async throws {
        let connection = try await Connection.open(Self.configuration(cluster.uri(database: name)))
        try await connection.execute(script: sql)
        await connection.closeAndWait()
    }

    /// The value of a query with one cell.
    func value(_ sql: String) async throws -> String? {
        let connection = try await Connection.open(Self.configuration(cluster.uri(database: name)))
        let rows = try await connection.run(Query(Statement("", sql)))
        await connection.closeAndWait()
        return rows.count == 0 ? nil : try rows.read(0, 0, as: String?.self)
    }

    var confirmed: LogPosition? {
        get async throws {
            try await value("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '\(slot)'")
                .flatMap { LogPosition($0) }
        }
    }

    var connector: ReplicationConnector {
        ReplicationConnector { _ in Self.configuration(self.cluster.uri(database: self.name)) }
    }

    /// Settings of a source that follows the database.
    func settings(_ tables: String...) -> String {
        let usual = [#"{"table":"public.contact","entity_type":"contact","id":"id"}"#]
        return """
            {"slot":"\(slot)","publication":"sluice","tables":[\((tables.isEmpty ? usual : tables).joined(separator: ","))]}
            """
    }
}

/// A source of an organization that follows a database, and its workers.
final class Follower: Sendable {
    let gateway: Gateway
    let database: FollowedDatabase
    let key: SourceKey
    let phone: Phone

    init(
        _ gateway: Gateway,
        _ database: FollowedDatabase,
        settings: String? = nil,
        organization: Organization? = nil,
        name: String = "db"
    ) async throws {
        self.gateway = gateway
        self.database = database
        let organization = if let organization { organization } else { try await gateway.organization() }
        key = SourceKey(organization: organization.id, name: name)
        phone = Phone(gateway, organization)
        try await put(settings ?? database.settings())
    }

    func put(_ settings: String, host: String = "db.example.org") async throws {
        var report = MemberReport()
        let read = SourceSettings(.postgres, try JSONTree(parsing: Array(settings.utf8)).root, at: "", &report)
        let update = SourceUpdate(
            settings: try #require(read, "\(report.problems)"),
            secret: "postgresql://u:p@\(host)/d"
        )
        _ = try await gateway.store.sourceAdministration.put(key, update)
    }

    var row: SourceRow {
        get async throws { try #require(try await gateway.store.sourceAdministration.source(key)) }
    }

    var state: ReplicationState? {
        get async throws { try await row.state.flatMap { ReplicationState($0) } }
    }

    /// The newest state of each entity on phones, by id.
    var entities: [String: String] {
        get async throws {
            var found: [String: String] = [:]
            for change in try await phone.pull() {
                let id = change["id"]?.string ?? change["id"]?.text ?? "?"
                found[id] = change["deleted"]?.bool == true ? "gone" : change["document"]?.text
            }
            return found
        }
    }

    func waitFor(_ expected: [String: String]) async throws {
        var last: [String: String] = [:]
        do {
            try await waitUntil("phones see \(expected)") {
                last = try await entities
                return last == expected
            }
        } catch {
            let row = try await row
            Issue.record("phones see \(last), not \(expected); \(row.lastError ?? "no error"), \(row.activity)")
            throw error
        }
    }

    /// Waits for a condition while the source may fail because its earlier stream has not ended.
    nonisolated(nonsending) func waitUntil(
        _ description: String,
        every interval: Duration = .milliseconds(20),
        _ condition: () async throws -> Bool
    ) async throws {
        try await TestSupport.waitUntil(description, every: interval) {
            passPause(of: try await row)
            return try await condition()
        }
    }

    /// Ends the pause until the next attempt, which follows the test clock. An attempt fails as long as the server has
    /// not noticed that the earlier stream has ended.
    private func passPause(of row: SourceRow) {
        guard row.activity == .retrying, row.lastError?.contains("is read by another process") == true else { return }
        gateway.clock.advance(seconds: 1)
    }

    struct Running: Sendable {
        let worker: ReplicationWorker
        let group: ServiceGroup
        let task: Task<Void, Never>

        /// Stops as at a shutdown.
        func stop() async {
            await group.triggerGracefulShutdown()
            await task.value
        }
    }

    func work(
        through other: Gateway? = nil,
        connector: ReplicationConnector? = nil,
        _ configure: (inout ReplicationWorker.Configuration) -> Void = { _ in }
    ) -> Running {
        Self.work(other ?? gateway, connector ?? database.connector, configure)
    }

    static func work(
        _ gateway: Gateway,
        _ connector: ReplicationConnector,
        _ configure: (inout ReplicationWorker.Configuration) -> Void = { _ in }
    ) -> Running {
        let clock = gateway.clock
        var configuration = ReplicationWorker.Configuration(now: { clock.now })
        configuration.pollInterval = 0.02
        configuration.settling = 0.3
        configuration.tick = .milliseconds(10)
        configuration.proof = .milliseconds(200)
        configuration.watchInterval = .milliseconds(100)
        configure(&configuration)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let worker = ReplicationWorker(
            store: gateway.store,
            connector: connector,
            configuration: configuration,
            logger: logger
        )
        let group = ServiceGroup(services: [worker], logger: logger)
        return Running(worker: worker, group: group, task: Task { try? await group.run() })
    }

    /// Waits for an error with this text.
    func waitForError(_ words: String) async throws {
        var last: String?
        do {
            try await waitUntil("there is an error with '\(words)'") {
                last = try await row.lastError
                return last?.contains(words) == true
            }
        } catch {
            Issue.record("the error is '\(last ?? "none")'")
            throw error
        }
    }
}
