import Foundation
import JSONText
import Postgres
import SyncModel
import Synchronization
import TestSupport

@testable import SyncStore

/// What a random test starts from: `SLUICE_TEST_SEED`, else a new number. Every expectation shows it.
struct Seed: CustomStringConvertible {
    let value: UInt64
    var description: String { "SLUICE_TEST_SEED=\(value)" }
    var generator: SeededRandom { SeededRandom(value) }

    init() {
        value = ProcessInfo.processInfo.environment["SLUICE_TEST_SEED"].flatMap(UInt64.init) ?? .random(in: 1 ... .max)
    }
}

/// Two replicas on one database, each of which can be replaced by a fresh one: with no memory of its own.
final class Replicas: Sendable {
    /// Never dropped: keeps the database, and reads.
    let base: Gateway
    private let gateways: Mutex<[Gateway]>
    private let masterKeys: String?

    init(committers: Int = 1, masterKeys: String? = nil) async throws {
        self.masterKeys = masterKeys
        base = try await Gateway(committers: committers, masterKeys: masterKeys)
        gateways = Mutex([
            try await Gateway(replicaOf: base, committers: committers, masterKeys: masterKeys),
            try await Gateway(replicaOf: base, committers: committers, masterKeys: masterKeys),
        ])
    }

    subscript(index: Int) -> Gateway { gateways.withLock { $0[index] } }

    func random(_ generator: inout SeededRandom) -> Gateway { self[Int.random(in: 0...1, using: &generator)] }

    /// Drops a replica with all that it remembers and starts another in its place.
    func restart(_ index: Int) async throws {
        let fresh = try await Gateway(replicaOf: base, committers: 1, masterKeys: masterKeys)
        gateways.withLock { $0[index] = fresh }
    }
}

extension JSONValue {
    var namedTexts: [(name: String, text: String)] {
        members.map { $0.map { (name: $0.name.string, text: String(decoding: $0.value.raw, as: UTF8.self)) } } ?? []
    }

    /// A result without what may differ between a first answer and its repetitions.
    var outcome: String {
        namedTexts.filter { $0.name != "replayed" }.map { "\($0.name)=\($0.text)" }.joined(separator: " ")
    }

    var version: Int64? { self["version"]?.int64 }
    var key: UUID? { self["idempotency_key"]?.uuid }
}

extension Gateway {
    /// Rows of a statement, by a connection of its own.
    func read(_ sql: String, _ parameters: Parameters = Parameters()) async throws -> Rows {
        let connection = try await database.connect()
        let rows = try await connection.run(Query(Statement("test_read", sql), parameters))
        await connection.closeAndWait()
        return rows
    }

    func count(_ table: String, of organization: UUID) async throws -> Int64 {
        var parameters = Parameters()
        parameters.add(organization)
        let column = table == "organizations" ? "id" : "organization_id"
        return try await read("SELECT count(*) FROM \(table) WHERE \(column) = $1", parameters).int64(0, 0)
    }

    /// Waits until `count` backends of this database wait for a lock, or `isOver` says that it will not come to that.
    func waitForLocks(_ count: Int, unless isOver: @Sendable () -> Bool = { false }) async throws {
        let connection = try await database.connect()
        let statement = Statement(
            "test_waiting",
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()
            """
        )
        while !isOver(), try await connection.run(Query(statement)).int64(0, 0) < count {
            try await connection.execute(script: "SELECT pg_sleep(0.002)")
        }
        await connection.closeAndWait()
    }
}

/// A lock that a test holds on a user's lane, so that the group which needs it waits and arrivals queue behind it.
struct HeldLane {
    private let connection: Connection

    init(_ phone: Phone) async throws {
        connection = try await phone.gateway.database.connect()
        try await connection.execute(
            script: """
                BEGIN;
                SELECT 1 FROM lanes WHERE organization_id = '\(phone.organization.id.lowercased)'
                    AND user_id = '\(phone.user.lowercased)' FOR UPDATE
                """
        )
    }

    func release() async throws {
        try await connection.execute(script: "ROLLBACK")
        await connection.closeAndWait()
    }
}

/// Tells tasks that it is over.
final class Flag: Sendable {
    private let raised = Mutex(false)
    var isRaised: Bool { raised.withLock { $0 } }
    func raise() { raised.withLock { $0 = true } }
}

/// Counts down from a number of tasks.
final class Countdown: Sendable {
    private let remaining: Mutex<Int>
    var isOver: Bool { remaining.withLock { $0 <= 0 } }

    init(_ count: Int) {
        remaining = Mutex(count)
    }

    func finishOne() { remaining.withLock { $0 -= 1 } }
}

extension Phone {
    /// Pushes until there is an answer: what is told to come again comes again.
    func persist(_ entries: [Entry], after: Int64? = nil, through gateway: () -> Gateway) async throws -> JSONValue {
        while true {
            do {
                return try await push(entries, after: after, through: gateway())
            } catch let problem as Problem where problem.retryAfter != nil {
                await Task.yield()
            }
        }
    }
}
