import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// Deletes webhook deliveries: delivered messages after the storage period of payloads, and all other messages after
/// the storage period of records. No lane is locked.
struct DeliveryRetention: Sendable {
    let organization: UUID
    let cutoffs: RetentionCutoffs

    /// Reads a page of old rows, the oldest first.
    func page(after place: RetentionPosition?, limit: Int) -> Query {
        let last = place.aged
        return Self.pageStatement(
            organization: organization,
            after_age: last.age,
            after_endpoint: last.user,
            after_id: last.id,
            delivered_cutoff: cutoffs.payloads,
            cutoff: cutoffs.everything,
            limit: limit
        )
    }

    struct Row: Sendable {
        let endpoint: UUID
        let id: UUID
        let age: Timestamp

        init(_ row: inout RowReader) throws {
            endpoint = try row.read("endpoint_id")
            id = try row.read("id")
            age = try row.read("occurred_at")
        }

        var place: RetentionPosition { .aged(age, user: endpoint, id: id) }
    }

    /// Deletes deliveries, except deliveries that an operator has retried since they were read.
    func drop(_ rows: [Row]) -> Query {
        let keys = rows.map { (organization: organization, endpoint: $0.endpoint, id: $0.id) }
        var parameters = Self.keys.parameters(keys)
        parameters.add(cutoffs.everything)
        return Query(Self.dropStatement, parameters)
    }

    private static let keys = Columns<(organization: UUID, endpoint: UUID, id: UUID)>(
        .value("organization_id") { $0.organization },
        .value("endpoint_id") { $0.endpoint },
        .value("id") { $0.id }
    )

    private static func old(_ status: String, before cutoff: String) -> String {
        """
        (
                SELECT x.endpoint_id, x.id, x.occurred_at
                FROM webhook_deliveries x
                WHERE x.organization_id = :organization AND x.status \(status) 'delivered' AND x.occurred_at >= :after_age
                    AND (x.occurred_at, x.endpoint_id, x.id) > (:after_age, :after_endpoint, :after_id) AND x.occurred_at < \(cutoff)
                ORDER BY x.occurred_at, x.endpoint_id, x.id
                LIMIT :limit
            )
        """
    }

    static let pageStatement = Statement(
        "retention_deliveries",
        ["organization", "after_age", "after_endpoint", "after_id", "delivered_cutoff", "cutoff", "limit"],
        """
        SELECT t.endpoint_id, t.id, t.occurred_at
        FROM (
            \(old("=", before: ":delivered_cutoff"))
            UNION ALL
            \(old("<>", before: ":cutoff"))
        ) t
        ORDER BY t.occurred_at, t.endpoint_id, t.id
        LIMIT :limit
        """
    )

    static let dropStatement = Statement(
        "retention_delete_deliveries",
        keys.inputs + ["cutoff"],
        """
        DELETE FROM webhook_deliveries AS d
        USING \(keys.unnested(as: "k"))
        WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id
            AND CASE WHEN d.status = 'delivered' OR d.occurred_at < :cutoff THEN true END
        """
    )

    static let statements = [pageStatement, dropStatement]
}

/// Deletes old rows of the audit log for all organizations together, because the log outlives the organizations.
struct AuditRetention: Sendable {
    let cutoffs: RetentionCutoffs

    struct Row: Sendable {
        let organization: UUID
        let id: UUID
        let at: Timestamp

        init(_ row: inout RowReader) throws {
            organization = try row.read("organization_id")
            id = try row.read("id")
            at = try row.read("at")
        }

        var place: RetentionPosition { .aged(at, user: organization, id: id) }
    }

    /// Reads a page of old rows, the oldest first.
    func page(after place: RetentionPosition?, limit: Int) -> Query {
        var last = UUID.least
        if case .aged(_, _, let id) = place { last = id }
        return AuditStatements.old(
            before: UUIDv7Generator.least(at: cutoffs.audit),
            after: last,
            limit: limit
        )
    }

    func drop(_ rows: [Row]) -> Query {
        AuditStatements.drop(organizations: rows.map(\.organization), ids: rows.map(\.id))
    }
}
