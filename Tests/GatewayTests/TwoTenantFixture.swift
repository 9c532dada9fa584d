import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import Postgres
import StandardWebhooks
import SyncHTTP
import SyncModel
import SyncStore
import Synchronization
import TestSupport
import Testing
import Tokens

/// Two tenants in one gateway. Ada and Bob are users of the first tenant, and Eve of the second.
struct TwoTenantFixture: Sendable {
    let gateway: LiveGateway
    let ada: SyncWorker
    let bob: SyncWorker
    let eve: SyncWorker

    /// - Parameters:
    ///   - settings: the settings of the first organization.
    ///   - timeouts: the time-outs of the database; nil for the time-outs that `isPatient` selects.
    init(
        _ settings: String = "{}",
        on database: TestDatabase? = nil,
        as role: String? = nil,
        tokens: TokenConfiguration = LiveGateway.tokens,
        forwards: Bool = false,
        polls: Bool = false,
        retains: Bool = false,
        operates: Bool = false,
        delivers: WebhookSigningKey? = nil,
        isPatient: Bool = true,
        timeouts: DatabaseTimeouts? = nil,
        masterKeys: String? = nil,
        configure: (inout HTTPConfiguration) -> Void = { _ in }
    ) async throws {
        gateway = try await .start(
            on: database,
            as: role,
            tokens: tokens,
            forwards: forwards,
            polls: polls,
            retains: retains,
            operates: operates,
            delivers: delivers,
            timeouts: timeouts ?? LiveGateway.timeouts(isPatient),
            masterKeys: masterKeys,
            configure: configure
        )
        let (first, second) = (UUID(), UUID())
        ada = try await SyncWorker(gateway, organization: first)
        bob = try await SyncWorker(gateway, organization: first)
        eve = try await SyncWorker(gateway, organization: second)
        try await gateway.makeOrganization(first, settings: settings)
        try await gateway.makeOrganization(second)
    }

    /// A call of the operator.
    func operate(
        _ method: HTTPMethod,
        _ path: String,
        _ body: String? = nil,
        headers: [(String, String)] = []
    ) async throws -> Reply {
        try await send(
            method,
            gateway.operations + path,
            token: LiveGateway.operatorToken,
            headers: headers,
            body: body.map { Array($0.utf8) }
        )
    }

    /// The path of Ada's and Bob's organization.
    var admin: String { "/admin/organizations/\(ada.organization.lowercased)" }

    /// The lines of a metrics response.
    func metrics() async throws -> [String] {
        try await send(.GET, gateway.operations + "/metrics").text.components(separatedBy: "\n")
    }

    /// Waits until the metrics contain a line.
    func reaches(_ line: String) async throws {
        try await waitUntil(line, every: .milliseconds(20)) { try await metrics().contains(line) }
    }

    // MARK: - The database

    /// Executes a script as the database's owner.
    func execute(_ script: String) async throws {
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        try await connection.execute(script: script)
    }

    /// The first column of each row of a query's result, as text.
    func lines(_ sql: String) async throws -> [String] {
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        let rows = try await connection.run(Query(Statement("", sql)))
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
    }

    /// Rows and a checksum of every table.
    func tables() async throws -> [String: String] {
        let states = try await query("tables_state") {
            "count(*) || ' ' || coalesce(md5(string_agg(t, '' ORDER BY t)), '-') FROM \($0)"
        }
        // excluded: the first request for an organization creates its key, even a rejected one; gateways write
        // heartbeats; the audit log contains attempts of operators
        return states.filter { !["organization_keys", "gateways", "audit"].contains($0.key) }
    }

    /// The number of rows of every table that contain a text.
    func mentions(of text: String) async throws -> [String: Int] {
        try await query("tables_mentions", text) { "count(*)::text FROM \($0) WHERE strpos(t, $1) > 0" }
            .compactMapValues { Int($0) }
    }

    /// Every row of every table that contains a text, in order.
    func rows(mentioning text: String) async throws -> [String] {
        try await query("tables_rows", text) {
            "coalesce(string_agg(t, E'\\n' ORDER BY t), '') FROM \($0) WHERE strpos(t, $1) > 0"
        }
        .filter { !$0.value.isEmpty }.map { "\($0.key): \($0.value)" }.sorted()
    }

    func query(
        _ name: String,
        _ argument: String? = nil,
        _ expression: (String) -> String
    ) async throws -> [String: String] {
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        let list = Statement(
            "tables_list",
            """
            SELECT relname::text FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
            ORDER BY relname
            """
        )
        let found = try await connection.run(Query(list))
        let tables = try (0..<found.count).map { try found.read($0, 0, as: String.self) }
        let parts = tables.map { table in
            // the audit log names the organization of every action permanently
            let row = table == "audit" ? "(to_jsonb(x) - 'organization_id')::text" : "x::text"
            return "SELECT '\(table)', " + expression("(SELECT \(row) AS t FROM \(table) x) s")
        }
        var parameters = Parameters()
        if argument != nil { parameters.add(argument) }
        let rows = try await connection.run(Query(Statement(name, parts.joined(separator: " UNION ALL ")), parameters))
        return try Dictionary(
            uniqueKeysWithValues: (0..<rows.count).map {
                (try rows.read($0, 0, as: String.self), try rows.read($0, 1, as: String.self))
            }
        )
    }
}

/// A phone's sync worker: a user with a valid token, and a device that counts its mutations.
final class SyncWorker: Sendable {
    let gateway: LiveGateway
    let organization: UUID
    let user: UUID
    let device = UUID()
    let token: String
    private let lastNumber = Mutex<Int64>(0)

    init(_ gateway: LiveGateway, organization: UUID, user: UUID = UUID()) async throws {
        self.gateway = gateway
        self.organization = organization
        self.user = user
        token = try await gateway.token(organization: organization, user: user)
    }

    func get(_ path: String, headers: [(String, String)] = []) async throws -> Reply {
        try await send(.GET, gateway.address + path, token: token, headers: headers)
    }

    /// A page of a list with a cursor, which has exactly the members of the contract.
    func page(of list: String, _ path: String) async throws -> Reply {
        let reply = try await get(path)
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply.json?.names == [list, "next", "up_to_date"])
        return reply
    }

    func post(_ path: String, _ body: String, headers: [(String, String)] = []) async throws -> Reply {
        try await post(path, bytes: Array(body.utf8), headers: headers)
    }

    func post(_ path: String, bytes: [UInt8], headers: [(String, String)] = []) async throws -> Reply {
        try await send(.POST, gateway.address + path, token: token, headers: headers, body: bytes)
    }

    func push(_ drafts: [Draft], after: Int64? = nil, prefer: String? = nil) async throws -> Reply {
        try await post(
            "/v1/mutations",
            envelope(drafts, after: after),
            headers: prefer.map { [("Prefer", $0)] } ?? []
        )
    }

    func envelope(_ drafts: [Draft], after: Int64? = nil) -> String {
        let sequence = after.map { #","after_sequence":\#($0)"# } ?? ""
        let list = drafts.map(\.json).joined(separator: ",")
        return #"{"device_id":"\#(device.lowercased)"\#(sequence),"mutations":[\#(list)]}"#
    }

    /// An entry with the device's next number.
    func draft(_ operation: String, _ type: String = "task", _ members: [String: String] = [:]) -> Draft {
        let number = lastNumber.withLock { number in
            number += 1
            return number
        }
        let required = [
            "id": UUID().quoted, "idempotency_key": UUID().quoted, "sequence_number": "\(number)",
            "operation": #""\#(operation)""#, "entity_type": #""\#(type)""#,
            "created_at": #""2026-11-18T07:00:00.000Z""#,
        ]
        return Draft(members: required.merging(members) { $1 })
    }

    /// A create of a new entity.
    func create(_ type: String = "task", local: UUID = UUID(), _ payload: String = #"{"title":"x"}"#) -> Draft {
        draft("create", type, ["local_id": local.quoted, "payload": payload])
    }

    /// An update or delete of an entity by the server's id.
    func change(_ operation: String = "update", _ type: String = "task", server: String, base: Int? = nil) -> Draft {
        var members = ["server_id": #""\#(server)""#]
        if operation != "delete" { members["payload"] = #"{"title":"y"}"# }
        if let base { members["base_version"] = "\(base)" }
        return draft(operation, type, members)
    }
}

/// One entry of a push: its members as JSON text.
struct Draft: Sendable {
    var members: [String: String]

    subscript(name: String) -> String? {
        get { members[name] }
        set { members[name] = newValue }
    }

    /// The id without quotes.
    var id: String { String((members["id"] ?? "").dropFirst().dropLast()) }

    var json: String {
        "{" + members.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",") + "}"
    }
}

extension UUID {
    /// The id as a JSON string, in lower case.
    var quoted: String { #""\#(lowercased)""# }
}
