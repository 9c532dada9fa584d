import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

extension Phone {
    /// A phone whose organization has an upstream: its types are forwarded, so its mutations stay pending.
    static func forwarding(_ settings: String = "{}", visibility: String = "user") async throws -> Phone {
        let phone = try await new(settings)
        let id = phone.organization.id.lowercased
        let types = ["task", "note", "contact"].map { "('\(id)', '\($0)', 'mapped', '\(visibility)', 0, true)" }
        try await phone.execute(
            """
            INSERT INTO upstreams VALUES ('\(id)', 'http://localhost:1', NULL, 30, 8, '/id', '{}', now());
            INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded)
            VALUES \(types.joined(separator: ","))
            """
        )
        phone.gateway.clock.advance(seconds: 6)
        let organization = try #require(try await phone.gateway.store.catalog.organization(phone.organization.id))
        return Phone(phone.gateway, organization)
    }

    func execute(_ script: String) async throws {
        let connection = try await gateway.database.connect()
        try await connection.execute(script: script)
        await connection.closeAndWait()
    }

    /// An entry of a forwarded type.
    func forward(
        _ operation: String,
        _ type: String = "task",
        local: UUID? = nil,
        server: String? = nil,
        payload: String? = nil,
        needs: [UUID] = []
    ) -> Entry {
        var entry = entry(operation, type, local: local, server: server, payload: payload)
        entry.extra["endpoint"] = #""/api/\#(type)s""#
        if !needs.isEmpty {
            entry.extra["dependency_ids"] = "[" + needs.map { #""\#($0.lowercased)""# }.joined(separator: ",") + "]"
        }
        return entry
    }

    /// Puts a pending mutation into the state in which a worker would leave it.
    func leave(_ id: UUID, _ status: String, _ columns: String = "error = '{\"code\":\"upstream_rejected\"}'")
        async throws
    {
        let isFinal = status == "succeeded"
        try await execute(
            """
            UPDATE mutations SET status = '\(status)', \(columns)
                \(isFinal ? ", synced_at = now(), server_id = coalesce(server_id, 'x')" : "")
            WHERE \(owner) AND id = '\(id.lowercased)' AND status = 'pending';
            UPDATE lanes SET queued_count = queued_count - \(status == "in_flight" ? 0 : 1),
                open_count = open_count - \(isFinal ? 1 : 0),
                ready_at = CASE WHEN queued_count > 1 THEN ready_at END
            WHERE \(owner)
            """
        )
    }

    /// A conflict with an entity of the upstream.
    func conflict(_ id: UUID, current: String?, existing: String = "null") async throws {
        let error =
            current.map { #"{"code":"conflict","current":\#($0)}"# }
            ?? #"{"code":"conflict","existing_id":\#(existing)}"#
        try await leave(
            id,
            "conflict",
            "error = '\(error)', response_status = 409, response_body = '{\"id\":\"conflict\"}', last_error = 'x'"
        )
    }

    var owner: String {
        "organization_id = '\(organization.id.lowercased)' AND user_id = '\(user.lowercased)'"
    }

    // MARK: - Settling

    func retry(_ id: UUID, _ body: String = "") async throws -> JSONValue? {
        let request = try RetryRequest(body: Array(body.utf8), limits: IntakeLimits())
        let found = try await gateway.store.settling.retry(id, request, organization: organization, user: user)
        return try found.map { try JSONTree(parsing: $0.json()).root }
    }

    func discard(_ id: UUID, _ dependants: DependantsChoice? = nil) async throws -> JSONValue? {
        let request = DiscardRequest(dependants: dependants)
        let found = try await gateway.store.settling.discard(id, request, organization: organization, user: user)
        return try found.map { try JSONTree(parsing: $0.json()).root }
    }

    func resolve(_ id: UUID, _ strategy: String, payload: String? = nil) async throws -> JSONValue? {
        let body = #"{"strategy":"\#(strategy)"\#(payload.map { #","payload":\#($0)"# } ?? "")}"#
        let request = try ResolveRequest(body: Array(body.utf8), limits: IntakeLimits())
        let found = try await gateway.store.settling.resolve(id, request, organization: organization, user: user)
        return try found.map { try JSONTree(parsing: $0.json()).root }
    }

    func read(_ id: UUID) async throws -> JSONValue {
        let found = try await gateway.store.mutations.mutation(id, organization: organization, user: user, wait: .zero)
        return try JSONTree(parsing: try #require(found).json()).root
    }

    func statuses(_ entries: [Entry]) async throws -> [String] {
        var statuses: [String] = []
        for entry in entries { statuses.append(try await read(entry.id).status ?? "-") }
        return statuses
    }

    /// One value of a mutation's row, as text.
    func column(_ name: String, of id: UUID) async throws -> String? {
        let rows = try await gateway.read(
            "SELECT (\(name))::text FROM mutations WHERE \(owner) AND id = '\(id.lowercased)'"
        )
        return try rows.read(0, 0, as: String?.self)
    }

    func mapping(_ client: UUID) async throws -> String {
        let rows = try await gateway.read(
            """
            SELECT concat_ws(' ', status, server_id, last_error) FROM id_mappings
            WHERE \(owner) AND client_id = '\(client.lowercased)'
            """
        )
        return rows.count == 0 ? "-" : try rows.read(0, 0, as: String.self)
    }

    /// Violated invariants of the organization's lanes; empty if all hold.
    func disorder() async throws -> [String] {
        let rows = try await gateway.read(
            """
            WITH m AS (SELECT * FROM mutations WHERE organization_id = '\(organization.id.lowercased)'),
            unmet AS (
                SELECT m.id, m.user_id, m.status, d.id AS on_id, d.status AS on_status
                FROM m CROSS JOIN LATERAL unnest(m.depends_on) x (id) JOIN m d ON d.user_id = m.user_id AND d.id = x.id
                WHERE m.synced_at IS NULL AND d.status <> 'succeeded'
                    AND (d.status <> 'discarded' OR d.resolution IS DISTINCT FROM 'server_wins'))
            SELECT 'lane counts ' || l::text FROM lanes l
            WHERE l.organization_id = '\(organization.id.lowercased)'
                AND (l.queued_count <> (SELECT count(*) FROM m WHERE m.user_id = l.user_id
                        AND m.status IN ('pending', 'in_flight'))
                    OR l.open_count <> (SELECT count(*) FROM m WHERE m.user_id = l.user_id AND m.synced_at IS NULL)
                    OR l.head_position > (SELECT min(position) FROM m WHERE m.user_id = l.user_id
                        AND m.status IN ('pending', 'in_flight'))
                    OR l.change_position < (SELECT max(change_position) FROM m WHERE m.user_id = l.user_id))
            UNION ALL
            SELECT 'halted for nothing ' || l.halted_by FROM lanes l JOIN m ON m.user_id = l.user_id AND m.id = l.halted_by
            WHERE m.status NOT IN ('failed', 'conflict')
            UNION ALL
            SELECT 'ready though halted ' || l.user_id FROM lanes l
            WHERE l.organization_id = '\(organization.id.lowercased)' AND l.ready_at IS NOT NULL
                AND (l.halted_by IS NOT NULL OR l.queued_count = 0)
            UNION ALL
            SELECT 'waits for nothing ' || m.id FROM m WHERE m.status = 'blocked' AND NOT EXISTS (
                SELECT 1 FROM unmet u WHERE u.user_id = m.user_id AND u.id = m.id AND u.on_id = m.blocked_on)
            UNION ALL
            SELECT 'runs too early ' || u.id FROM unmet u WHERE u.status IN ('pending', 'in_flight')
            UNION ALL
            SELECT 'not in the index of runnable mutations ' || m.id FROM m
            WHERE m.status IN ('pending', 'in_flight') AND (m.blocked_on IS NOT NULL OR m.stuck_at IS NOT NULL)
            UNION ALL
            SELECT 'waits for ever ' || u.id FROM unmet u WHERE u.on_status = 'discarded'
            UNION ALL
            SELECT 'mapping ' || i::text FROM id_mappings i LEFT JOIN m ON m.user_id = i.user_id AND m.id = i.mutation_id
            WHERE i.organization_id = '\(organization.id.lowercased)'
                AND (i.status = 'failed') <> (m.status = 'discarded' AND m.resolution IS NULL)
            """
        )
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
    }
}

/// The problem with which a settling call is refused.
func refusal(_ body: () async throws -> JSONValue?) async throws -> Problem? {
    do {
        _ = try await body()
        return nil
    } catch let problem as Problem {
        return problem
    }
}

extension Problem {
    /// `code pointer rule`
    var summary: String {
        ([code.rawValue] + errors.map { "\($0.pointer) \($0.rule)" }).joined(separator: " ")
    }
}

extension BulkOutcome {
    var text: String { "\(matched) matched, \(settled) settled" }
}

extension JSONValue {
    /// The ids of the mutations that a discard discarded.
    var discardedIDs: [UUID] { self["discarded"]?.elements.map { $0.compactMap(\.uuid) } ?? [] }
}
