import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel

@testable import OperatorsFeature
@testable import SyncStore

extension Phone {
    /// Puts a pending mutation into the state in which a worker leaves it for a person, at the current time.
    func stick(_ id: UUID, _ code: String = "upstream_rejected", _ status: Int = 422) async throws {
        let now = gateway.clock.now.rfc3339
        try await leave(
            id,
            code == "conflict" ? "conflict" : "failed",
            """
            error = '{"code":"\(code)","detail":"no \(code) \(status)"}', error_code = '\(code)', error_status = \(status),
                stuck_at = '\(now)', changed_at = '\(now)', last_error = 'x', response_status = nullif(\(status), 0)
            """
        )
    }

    /// Pushes forwarded mutations that then get stuck.
    @discardableResult
    func pushStuck(_ count: Int, _ type: String = "task", _ code: String = "upstream_rejected", _ status: Int = 422)
        async throws -> [Entry]
    {
        let entries = (0..<count).map { _ in forward("create", type, local: UUID()) }
        try await push(entries)
        for entry in entries {
            // a stuck mutation halts its lane, and later settings release it
            try await stick(entry.id, code, status)
        }
        return entries
    }

    /// Another user of the same organization.
    func neighbour() -> Phone { Phone(gateway, organization) }

    /// Adds thousands of other users' mutations in this and in another organization. Some are stuck, and most are done.
    ///
    /// - Parameter start: the time at which the first mutation gets stuck; each next mutation gets stuck a second
    ///   later.
    func fillStuck(_ count: Int = 6_000, since start: String = "2026-11-20T07:00:00Z") async throws {
        try await execute(
            """
            INSERT INTO mutations (organization_id, user_id, id, device_id, sequence_number, position, change_position,
                idempotency_key, fingerprint, operation, entity_type, server_id, priority, max_attempts,
                conflict_resolution, status, error, error_code, error_status, stuck_at, created_at, accepted_at,
                changed_at, synced_at)
            SELECT CASE WHEN n % 3 = 0 THEN gen_random_uuid() ELSE '\(organization.id)'::uuid END, gen_random_uuid(),
                gen_random_uuid(), gen_random_uuid(), 1, n, n, gen_random_uuid(), decode(repeat('00', 33), 'hex'),
                'update', 'type' || n % 7, 'x', 0, 10, 'manual',
                CASE WHEN s.is_done THEN 'succeeded' WHEN n % 5 = 0 THEN 'conflict' ELSE 'failed' END,
                CASE WHEN NOT s.is_done THEN json '{"code":"x","detail":"y"}' END,
                CASE WHEN s.is_done THEN NULL WHEN n % 5 = 0 THEN 'conflict' ELSE 'upstream_rejected' END,
                CASE WHEN NOT s.is_done THEN 409 END,
                CASE WHEN NOT s.is_done THEN timestamptz '\(start)' + n * interval '1 second' END,
                now(), now(), now(), CASE WHEN s.is_done THEN now() END
            FROM generate_series(1, \(count)) n CROSS JOIN LATERAL (SELECT n % 2 = 0 AS is_done) s
            """
        )
    }
}

extension Gateway {
    /// All groups, page by page.
    func groups(
        _ filter: FailureFilter = FailureFilter(),
        of organization: UUID? = nil,
        limit: Int = 100
    ) async throws -> [FailureGroup] {
        var (found, cursor): ([FailureGroup], String?) = ([], nil)
        repeat {
            let page = try await store.stuckGroups.page(
                filter,
                organization: organization,
                limit: limit,
                cursor: cursor
            )
            (found, cursor) = (found + page.groups, page.next)
        } while cursor != nil
        return found
    }

    /// All stuck mutations, page by page.
    func stuck(
        _ filter: FailureFilter = FailureFilter(),
        of organization: UUID? = nil,
        limit: Int = 100
    ) async throws -> [FailedMutation] {
        var (found, cursor): ([FailedMutation], String?) = ([], nil)
        repeat {
            let page = try await store.stuckList.page(filter, organization: organization, limit: limit, cursor: cursor)
            (found, cursor) = (found + page.mutations, page.next)
        } while cursor != nil
        return found
    }

    /// A request for an operation.
    func draft(_ members: String) throws -> OperationDraft {
        try OperationDraft(
            body: Array(#"{\#(members),"reason":"a test"}"#.utf8),
            limit: 65_536,
            isPreview: false
        )
    }

    /// Creates an operation.
    func operation(_ members: String, in organization: UUID) async throws -> OperationRow {
        guard let made = try await store.operations.make(try draft(members), in: organization, by: "anna") else {
            throw Problem(.notFound, pointer: "", rule: "", "no such organization")
        }
        return made
    }
}

extension FailureGroup {
    /// `type code status count`
    var summary: String { "\(key.entityType) \(key.errorCode) \(key.responseStatus) \(count.count)" }
}

extension OperationRow {
    /// `state: matched = done + skipped + failed`
    var summary: String { "\(state.rawValue): \(matched) = \(tally.done) + \(tally.skipped) + \(tally.failed)" }
}
