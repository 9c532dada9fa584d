import Foundation
import Postgres
import SyncModel
import SyncStore

/// Deletes webhook deliveries: delivered ones like payloads, all others like records. They belong to no lane.
struct DeliveryRetention: Sendable {
    let organization: UUID
    let cutoffs: RetentionCutoffs

    /// Reads a page of old rows, the oldest first.
    func page(after place: RetentionPlace?, limit: Int) -> Query {
        var parameters = Parameters(of: organization)
        parameters.add(aged: place)
        parameters.add(timestamp: cutoffs.payloads.microseconds)
        parameters.add(timestamp: cutoffs.everything.microseconds)
        parameters.add(Int64(limit))
        return Query(Self.pageStatement, parameters)
    }

    struct Row: Sendable {
        let endpoint: UUID
        let id: UUID
        let age: Timestamp

        init(_ row: inout RowReader) throws {
            endpoint = try row.uuid("endpoint_id")
            id = try row.uuid("id")
            age = try row.moment("occurred_at")
        }

        var place: RetentionPlace { .aged(age, user: endpoint, id: id) }
    }

    /// A delivery that an operator has retried since then stays.
    func drop(_ rows: [Row]) -> Query {
        let keys = rows.map { (organization: organization, endpoint: $0.endpoint, id: $0.id) }
        var parameters = Self.keys.parameters(keys)
        parameters.add(timestamp: cutoffs.everything.microseconds)
        return Query(Self.dropStatement, parameters)
    }

    private static let keys = Columns<(organization: UUID, endpoint: UUID, id: UUID)>(
        .uuid("organization_id") { $0.organization },
        .uuid("endpoint_id") { $0.endpoint },
        .uuid("id") { $0.id }
    )

    private static func old(_ status: String, before cutoff: String) -> String {
        """
        (
                SELECT x.endpoint_id, x.id, x.occurred_at
                FROM webhook_deliveries x
                WHERE x.organization_id = $1 AND x.status \(status) 'delivered' AND x.occurred_at >= $2
                    AND (x.occurred_at, x.endpoint_id, x.id) > ($2, $3, $4) AND x.occurred_at < \(cutoff)
                ORDER BY x.occurred_at, x.endpoint_id, x.id
                LIMIT $7
            )
        """
    }

    static let pageStatement = Statement(
        "retention_deliveries",
        """
        SELECT t.endpoint_id, t.id, t.occurred_at
        FROM (
            \(old("=", before: "$5"))
            UNION ALL
            \(old("<>", before: "$6"))
        ) t
        ORDER BY t.occurred_at, t.endpoint_id, t.id
        LIMIT $7
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
