import Foundation
import JSONText
import Logging
import Postgres
import SyncModel
import Synchronization
import TestSupport

@testable import SyncStore

/// A store on a database of its own, as the HTTP layer sees it, with a clock that the test moves.
final class Gateway: Sendable {
    let database: TestDatabase
    let store: Store
    let clock = ManualClock()
    private let service: Task<Void, Never>

    /// - Parameters:
    ///   - replicaOf: another gateway whose database this one shares.
    ///   - masterKeys: the text of its file; nil for none, or for one where `SLUICE_TEST_SEALED` is set.
    init(replicaOf other: Gateway? = nil, committers: Int = 2, masterKeys: String? = nil) async throws {
        database = if let other { other.database } else { try await Self.migratedDatabase() }
        let clock = clock
        var logger = Logger(label: "test")
        logger.logLevel = .error
        var settings = StoreConfiguration(databaseURL: database.uri, poolSize: 4, committers: committers)
        // nothing is late because the machine is slow; what is late for a reason is tested on real processes
        settings.patience = DatabasePatience(statement: .seconds(60))
        settings.masterKeys = try (masterKeys ?? TestKeys.ofEnvironment).map { try MasterKeys(parsing: $0) }
        let store = Store(
            settings,
            now: { clock.now },
            logger: logger
        )
        self.store = store
        service = Task {
            async let notifier: Void = store.notifier.run()
            async let pushes: Void = store.pushes.run()
            async let lanes: Void = store.lanes.run()
            _ = try? await (notifier, pushes, lanes)
        }
    }

    deinit {
        service.cancel()
    }

    static func migratedDatabase() async throws -> TestDatabase {
        try await TestDatabase.make(template: "sluice") { connection in
            _ = try await Schema.migrator(partitions: 4).migrate(on: connection)
        }
    }

    func organization(_ settings: String = "{}") async throws -> Organization {
        let id = UUID()
        let body = #"{"name":"Test","settings":\#(settings)}"#
        _ = try await store.administration.put(id, body: Array(body.utf8))
        guard let organization = try await store.catalog.organization(id) else { throw Missing() }
        return organization
    }

    struct Missing: Error {}
}

/// A clock that stands still until it is moved.
final class ManualClock: Sendable {
    private let moment = Mutex(Timestamp(microseconds: 1_795_000_000_000_000))

    var now: Timestamp { moment.withLock { $0 } }

    func set(_ moment: Timestamp) {
        self.moment.withLock { $0 = moment }
    }

    func advance(seconds: Double) {
        moment.withLock { $0 = $0.adding(seconds: seconds) }
    }
}

/// A phone: counts its mutations, and knows how to write them.
final class Phone: Sendable {
    let gateway: Gateway
    let organization: Organization
    let user: UUID
    let device = UUID()
    private let lastNumber = Mutex<Int64>(0)

    init(_ gateway: Gateway, _ organization: Organization, user: UUID = UUID()) {
        self.gateway = gateway
        self.organization = organization
        self.user = user
    }

    /// The next number of this device.
    func nextNumber() -> Int64 {
        lastNumber.withLock { number in
            number += 1
            return number
        }
    }

    /// An entry with the device's next number.
    func entry(
        _ operation: String,
        _ type: String = "task",
        local: UUID? = nil,
        server: String? = nil,
        payload: String? = nil,
        number: Int64? = nil,
        id: UUID = UUID(),
        key: UUID = UUID(),
        extra: [String: String] = [:]
    ) -> Entry {
        Entry(
            id: id,
            key: key,
            number: number ?? nextNumber(),
            operation: operation,
            type: type,
            local: local,
            server: server,
            payload: payload ?? (operation == "delete" ? nil : #"{"title":"x"}"#),
            extra: extra
        )
    }

    func create(_ type: String = "task", local: UUID = UUID(), payload: String? = nil) -> Entry {
        entry("create", type, local: local, payload: payload)
    }

    @discardableResult
    func push(
        _ entries: [Entry],
        after: Int64? = nil,
        strict: Bool = false,
        through other: Gateway? = nil
    ) async throws -> JSONValue {
        let list = entries.map(\.json).joined(separator: ",")
        let sequence = after.map { #","after_sequence":\#($0)"# } ?? ""
        let body = #"{"device_id":"\#(device.lowercased)"\#(sequence),"mutations":[\#(list)]}"#
        let request = try PushRequest(body: Array(body.utf8), limits: IntakeLimits())
        let answer = try await (other ?? gateway).store.pushes.submit(
            request,
            organization: organization,
            user: user,
            isStrict: strict
        )
        return try JSONTree(parsing: answer.json()).root
    }

    /// Every change of the organization that this user sees, oldest first.
    func pull(since: String? = nil, limit: Int = 100, types: [String] = []) async throws -> [JSONValue] {
        var changes: [JSONValue] = []
        var cursor = since
        while true {
            let page = try await gateway.store.changes.page(
                since: cursor,
                limit: limit,
                entityTypes: types,
                organization: organization,
                user: user
            )
            let root = try JSONTree(parsing: page).root
            changes += root["changes"]?.elements.map(Array.init) ?? []
            cursor = root["next"]?.string
            if root["up_to_date"]?.bool == true { return changes }
        }
    }
}

/// One entry of a push, to be written as JSON.
struct Entry {
    var id: UUID
    var key: UUID
    var number: Int64
    var operation: String
    var type: String
    var local: UUID?
    var server: String?
    var payload: String?
    /// Further members, as JSON text.
    var extra: [String: String]

    var json: String {
        var members = [
            #""id":"\#(id.lowercased)""#, #""idempotency_key":"\#(key.lowercased)""#, #""sequence_number":\#(number)"#,
            #""operation":"\#(operation)""#, #""entity_type":"\#(type)""#, #""created_at":"2026-11-20T07:00:00.000Z""#,
        ]
        if let local { members.append(#""local_id":"\#(local.lowercased)""#) }
        if let server { members.append(#""server_id":\#(server)"#) }
        if let payload { members.append(#""payload":\#(payload)"#) }
        members += extra.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }
        return "{" + members.joined(separator: ",") + "}"
    }
}

extension JSONValue {
    /// The results of a push's answer.
    var results: [JSONValue] { self["results"]?.elements.map(Array.init) ?? [] }
    var status: String? { self["status"]?.string }
    var code: String? { self["error"]?["code"]?.string }
    var serverID: String? { self["server_id"]?.string }
    var isReplayed: Bool? { self["replayed"]?.bool }
    var rules: [String] { self["error"]?["errors"]?.elements.map { $0.compactMap { $0["rule"]?.string } } ?? [] }
    var text: String { String(decoding: raw, as: UTF8.self) }
    var blockedBy: [UUID] { self["blocked_by"]?.elements.map { $0.compactMap(\.uuid) } ?? [] }
}
