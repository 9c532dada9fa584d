import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport

@testable import SyncStore

/// Fills the tables of a schema with rows, made from their entries in the catalogue and the types of their columns.
struct TableRows {
    struct Column {
        let name: String
        let type: String
        let isRequired: Bool
    }

    let gateway: Gateway
    /// The columns of each table, in the table's order.
    let columns: [String: [Column]]

    init(_ gateway: Gateway) async throws {
        self.gateway = gateway
        let rows = try await gateway.read(
            """
            SELECT c.table_name::text AS "table", c.column_name::text AS name,
                coalesce(c.domain_name, c.udt_name)::text AS type,
                c.is_nullable = 'NO' AND c.column_default IS NULL AS is_required
            FROM information_schema.columns c
            JOIN pg_class k ON k.relname = c.table_name AND k.relnamespace = 'public'::regnamespace
            WHERE c.table_schema = 'public' AND k.relkind IN ('r', 'p') AND NOT k.relispartition
            ORDER BY c.table_name, c.ordinal_position
            """
        )
        var columns: [String: [Column]] = [:]
        for var row in rows {
            let table: String = try row.read("table")
            let column = Column(
                name: try row.read("name", as: String.self),
                type: try row.read("type", as: String.self),
                isRequired: try row.read("is_required", as: Bool.self)
            )
            columns[table, default: []].append(column)
        }
        self.columns = columns
    }

    /// A text in every sealed value of a user's rows.
    static func marker(_ user: UUID) -> String { "secret of \(user.lowercased)" }

    /// A text in every sealed value of an organization's settings.
    static let setting = "secret of the organization"

    /// Adds a row for each of the users to each table whose key permits it.
    ///
    /// - Parameter age: SQL for the age of a user's rows, by the user's index, in tables that retention deletes by age.
    func fill(
        _ tables: [StoredTable],
        of organization: UUID,
        users: [UUID],
        age: (Int) -> String = { _ in "'2026-11-20T07:00:00Z'" }
    ) async throws {
        var script = ""
        for table in tables where table.organization != nil && !Self.given.contains(table.name) {
            for (place, user) in users.enumerated() {
                var values: [(name: String, value: String)] = []
                for column in columns[table.name] ?? [] {
                    let value = value(column, of: table, organization, user, place, age: age(place))
                    if let value { values.append((column.name, value)) }
                }
                script += """
                    INSERT INTO \(table.name) (\(values.map(\.name).joined(separator: ", ")))
                    VALUES (\(values.map(\.value).joined(separator: ", "))) ON CONFLICT DO NOTHING;

                    """
            }
        }
        script += "UPDATE feeds SET last_position = 1000 WHERE organization_id = '\(organization.lowercased)'"
        let connection = try await gateway.database.connect()
        try await connection.execute(script: script)
        await connection.closeAndWait()
    }

    /// Rows that a new organization has, or that other rows depend on.
    private static let given: Set = ["organizations", "organization_keys"]

    /// Nil for the column's default.
    private func value(
        _ column: Column,
        of table: StoredTable,
        _ organization: UUID,
        _ user: UUID,
        _ place: Int,
        age: String
    ) -> String? {
        let id = user.lowercased
        let text = "k\(organization.lowercased.prefix(8))\(id.prefix(8))"
        let known = Self.special["\(table.name).\(column.name)"]
        if let known { return known?.replacing("USER", with: id) }
        if column.name == table.organization { return "'\(organization.lowercased)'" }
        if case .deleted(column.name, _) = table.aging { return age }
        if table.users?.columns.contains(column.name) == true { return "'\(id)'" }
        if table.sealing?.columns.contains(column.name) == true {
            let marker = table.users == nil ? Self.setting : Self.marker(user)
            return column.type == "json" ? #"'{"text":"\#(marker)"}'"# : "'\(marker)'"
        }
        guard column.isRequired || table.key.contains(column.name) else { return nil }
        switch column.type {
        case "uuid": return "gen_random_uuid()"
        case "timestamptz": return "'2026-11-20T07:00:00Z'"
        case "bool": return "false"
        case "json", "jsonb": return "'{}'"
        case "bytea", "content_hash": return "sha256('\(text)\(table.name)\(column.name)')"
        case let type where type.hasPrefix("_"): return "'{}'"
        case "text", "name", "server_id", "event_name", "source_name", "external_name", "issuer_name":
            return "'\(text)'"
        case let type where type.hasPrefix("int"): return "\(place + 1)"
        case "whole_number", "ordinal", "priority", "attempt_count", "attempt_limit": return "\(place + 1)"
        default: return Self.ofDomain[column.type] ?? "'\(text)'"
        }
    }

    /// A value of each domain with a list of values.
    private static let ofDomain = [
        "mutation_operation": "'create'", "mutation_status": "'failed'", "mapping_status": "'failed'",
        "conflict_strategy": "'manual'", "event_result": "'applied'", "event_operation": "'upsert'",
        "delivery_status": "'waiting'", "webhook_status": "'enabled'", "source_kind": "'webhook'",
        "source_status": "'disabled'", "mutation_fingerprint": "decode(repeat('00', 33), 'hex')",
    ]

    /// Values of columns with constraints, by table and column; nil for no value.
    private static let special: [String: String?] = [
        "lanes.next_position": "2", "lanes.open_count": "1",
        "user_joins.user_id": "gen_random_uuid()", "user_joins.feed_end": "1", "user_joins.finished_at": "now()",
        "attempts.outcome": "'failed'", "local_ids.server_id": "'s'",
        "entity_types.id_space": "'shared'", "entity_types.visibility": "'organization'",
        "parked_events.look_at": "'2100-01-01T00:00:00Z'", "user_keys.wrapped_key": "decode(repeat('00', 60), 'hex')",
        "user_erasures.user_ids": nil,
        "user_erasures.state": "'done'", "user_erasures.finished_at": "now()",
        "upstreams.base_url": "'https://u.example'",
        "upstreams.credential": #"'{"bearer":"secret of the organization"}'"#,
        "upstreams.headers": #"'{"X-Text":"secret of the organization"}'"#,
        "webhook_endpoints.url": "'https://w.example'",
        "webhook_deliveries.data": #"'{"user_id":"USER"}'"#, "operations.kind": "'retry'",
        "operations.state": "'done'", "operations.ended_at": "now()", "audit.scope": "'admin'",
        "webhook_endpoints.previous_until": "now()", "sources.previous_until": "now()", "mutations.position": "1",
        "mutations.change_position": "1", "mutations.response_status": "422", "mutations.sent_method": "'POST'",
        "channel_grants.role": "'read'", "entity_types.channels": "'[]'", "entity_types.grants": "'[]'",
        "user_keys.master_key": "'first:00000000'",
    ]

    // MARK: - Reading

    /// Returns the rows in a table that meet a condition, as text.
    func dump(_ table: StoredTable, where condition: String) async throws -> [String] {
        try await gateway.rows("SELECT t::text FROM \(table.name) t WHERE \(condition) ORDER BY 1")
    }

    /// The tables of an organization with rows that contain a text, with the number of these rows.
    func mentions(of text: String, _ tables: [StoredTable], in organization: UUID) async throws -> [String: Int] {
        var found: [String: Int] = [:]
        for table in tables {
            guard let column = table.organization else { continue }
            let rows = try await dump(table, where: "\(column) = '\(organization.lowercased)'")
            let count = rows.count { $0.contains(text) }
            if count > 0 { found[table.name] = count }
        }
        return found
    }
}
