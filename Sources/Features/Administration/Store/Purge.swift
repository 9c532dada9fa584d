package import Foundation
import Logging
package import Postgres
package import SyncModel
import SyncStore

extension Administration {
    /// Rows that one statement of a purge deletes at most, so that no transaction grows long.
    static let purgeBatch: Int64 = 5_000

    /// Deletes an organization with all its data, in small batches; returns false if there is no such organization.
    ///
    /// The organization accepts no new lanes from the first step on, and the purge waits for the lanes that pushes in
    /// progress hold. Purged data do not come back; an interrupted purge continues when it is called again.
    package func purge(_ id: UUID) async throws(Problem) -> Bool {
        let key = Parameters(id)
        var batch = key
        batch.add(Self.purgeBatch)
        do {
            guard try await pool.run([Query(Self.closeStatement, key)])[0].affected > 0 else { return false }
            catalog.invalidate(id)
            // a push that began before the status changed may add rows while the first pass runs: pass until nothing
            // is left
            var isClean = false
            while !isClean {
                isClean = true
                for statement in Self.purgeStatements {
                    while try await pool.run([Query(statement, batch)])[0].affected > 0 { isClean = false }
                }
            }
            _ = try await pool.transaction { connection in
                try await connection.run(Self.lastStatements.map { Query($0, key) })
            }
            catalog.invalidate(id)
            identities.invalidate()
            logger.notice("organization purged", metadata: ["organization": "\(id.uuidString.lowercased())"])
            return true
        } catch {
            throw failure.problem(error, doing: "purge an organization")
        }
    }

    /// Rows of a table that are counted at most: the figure is for people, and need not be exact.
    package static let extentLimit: Int64 = 1_000_000

    /// Returns what a purge of an organization would delete: its tables, largest first, with their rows counted up to
    /// ``extentLimit``. Tables without rows are left out.
    package func extent(of id: UUID) async throws(Problem) -> [(table: String, rows: Int64)] {
        let parameters = Parameters(id, Self.extentLimit)
        var extent: [(table: String, rows: Int64)] = []
        do {
            for (table, statement) in Self.extentStatements {
                let rows = try await pool.run([Query(statement, parameters)])[0]
                let count = try rows.int64(0, 0)
                if count > 0 { extent.append((table, count)) }
            }
        } catch {
            throw failure.problem(error, doing: "count an organization's rows")
        }
        return extent.sorted { ($1.rows, $0.table) < ($0.rows, $1.table) }
    }

    /// One for each table that operators know.
    package static let extentStatements: [(table: String, Statement)] = [
        "mutations", "entities", "id_mappings", "local_ids", "rejections", "devices", "users", "user_subjects",
        "entity_types", "readers", "ingested_events", "parked_events", "sent_requests", "service_tokens",
        "webhook_deliveries", "sources", "attempts", "operations",
    ].map { table in
        let statement = Statement(
            "purge_extent_\(table)",
            "SELECT count(*) FROM (SELECT 1 FROM \(table) WHERE organization_id = $1 LIMIT $2) x"
        )
        return (table, statement)
    }

    package static let closeStatement = Statement(
        "purge_close",
        "UPDATE organizations SET status = 'purging' WHERE id = $1"
    )

    /// Lanes first: they are the lock that every writer holds.
    package static let purgeStatements: [Statement] = [
        purge("lanes", key: ["user_id"]),
        purge("mutations", key: ["user_id", "id"]),
        purge("attempts", key: ["user_id", "mutation_id", "slot"]),
        purge("rejections", key: ["user_id", "idempotency_key"]),
        purge("id_mappings", key: ["user_id", "client_id", "entity_type"]),
        purge("local_ids", key: ["user_id", "device_id", "entity_type", "local_id"]),
        purge("local_id_pages", key: ["user_id", "device_id", "page"]),
        purge("entities", key: ["entity_type", "id"]),
        purge("devices", key: ["user_id", "device_id"]),
        purge("users", key: ["user_id"]),
        purge("user_subjects", key: ["issuer", "subject"]),
        purge("mutation_quotas", key: ["user_id"]),
        purge("parked_events", key: ["source", "event_id"]),
        purge("ingested_events", key: ["source", "event_id"]),
        purge("sent_requests", key: ["idempotency_key"]),
        purge("webhook_deliveries", key: ["endpoint_id", "id"]),
        purge("erased_names", key: ["user_hash", "name_hash"]),
        purge("erased_subjects", key: ["subject_hash"]),
        purge("user_erasures", key: ["user_hash"]),
        // without these no copy of their users' sealed values can be opened any more
        purge("user_keys", key: ["made_for"]),
        // what operators did stays, and names none of its users any more
        AuditStatements.purge,
    ]

    package static let lastStatements: [Statement] = [
        Statement("purge_retention_places", "DELETE FROM retention_places WHERE organization_id = $1"),
        Statement("purge_feeds", "DELETE FROM feeds WHERE organization_id = $1"),
        Statement("purge_entity_types", "DELETE FROM entity_types WHERE organization_id = $1"),
        Statement("purge_request_quotas", "DELETE FROM request_quotas WHERE organization_id = $1"),
        Statement("purge_external_ids", "DELETE FROM external_ids WHERE organization_id = $1"),
        Statement("purge_user_joins", "DELETE FROM user_joins WHERE organization_id = $1"),
        Statement("purge_service_tokens", "DELETE FROM service_tokens WHERE organization_id = $1"),
        Statement("purge_erasure_salts", "DELETE FROM erasure_salts WHERE organization_id = $1"),
        Statement("purge_readers", "DELETE FROM readers WHERE organization_id = $1"),
        Statement("purge_webhook_endpoints", "DELETE FROM webhook_endpoints WHERE organization_id = $1"),
        Statement("purge_operations", "DELETE FROM operations WHERE organization_id = $1"),
        Statement("purge_sources", "DELETE FROM sources WHERE organization_id = $1"),
        Statement("purge_upstreams", "DELETE FROM upstreams WHERE organization_id = $1"),
        // without these keys no copy of the sealed values can be opened any more
        Statement("purge_organization_keys", "DELETE FROM organization_keys WHERE organization_id = $1"),
        Statement("purge_organizations", "DELETE FROM organizations WHERE id = $1"),
    ]

    /// - Parameter key: the other columns of the primary key, in its order.
    private static func purge(_ table: String, key: [String]) -> Statement {
        let columns = key.joined(separator: ", ")
        return Statement(
            "purge_\(table)",
            // deletes up to a row that is looked up once: without statistics, PostgreSQL joins a list of rows with the
            // table by scanning the table again for each of the list's rows
            """
            DELETE FROM \(table) WHERE organization_id = $1 AND (\(columns)) <= (
                SELECT \(columns) FROM (
                    SELECT \(columns) FROM \(table) WHERE organization_id = $1 ORDER BY \(columns) LIMIT $2
                ) x
                ORDER BY \(key.map { "\($0) DESC" }.joined(separator: ", ")) LIMIT 1)
            """
        )
    }
}
