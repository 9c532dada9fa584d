import Foundation
import JSONText
import Postgres
import SyncModel
import Synchronization
import TestSupport

@testable import SyncStore

/// Sebastiano Vigna's SplitMix64: small, and the same everywhere.
struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }

    /// True once in `count` times.
    mutating func oneIn(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &self) == 0 }

    mutating func uuid() -> UUID {
        let (high, low) = (next(), next())
        func byte(_ word: UInt64, _ place: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: word >> (place * 8)) }
        return UUID(
            uuid: (
                byte(high, 0), byte(high, 1), byte(high, 2), byte(high, 3), byte(high, 4), byte(high, 5),
                0x40 | byte(high, 6) & 0x0f, byte(high, 7), 0x80 | byte(low, 0) & 0x3f, byte(low, 1), byte(low, 2),
                byte(low, 3), byte(low, 4), byte(low, 5), byte(low, 6), byte(low, 7)
            )
        )
    }

    /// A generator of its own, for a task beside this one.
    mutating func split() -> SplitMix64 { SplitMix64(next()) }
}

/// What a random test starts from: `SLUICE_TEST_SEED`, else a new number. Every expectation shows it.
struct Seed: CustomStringConvertible {
    let value: UInt64
    var description: String { "SLUICE_TEST_SEED=\(value)" }
    var generator: SplitMix64 { SplitMix64(value) }

    init() {
        value = ProcessInfo.processInfo.environment["SLUICE_TEST_SEED"].flatMap(UInt64.init) ?? .random(in: 1 ... .max)
    }
}

/// Two replicas on one database, each of which can be replaced by a fresh one: with no memory of its own.
final class Replicas: Sendable {
    /// Never dropped: keeps the database, and reads.
    let base: Gateway
    private let gateways: Mutex<[Gateway]>

    init(committers: Int = 1) async throws {
        base = try await Gateway(committers: committers)
        gateways = Mutex([
            try await Gateway(replicaOf: base, committers: committers),
            try await Gateway(replicaOf: base, committers: committers),
        ])
    }

    subscript(index: Int) -> Gateway { gateways.withLock { $0[index] } }

    func random(_ generator: inout SplitMix64) -> Gateway { self[Int.random(in: 0...1, using: &generator)] }

    /// Drops a replica with all that it remembers and starts another in its place.
    func restart(_ index: Int) async throws {
        let fresh = try await Gateway(replicaOf: base, committers: 1)
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
