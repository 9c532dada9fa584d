import FoundationEssentials
import JSONText
import Postgres
import SyncModel
import SyncStore

extension StoredTable {
    static let webhookDeliveries = StoredTable("webhook_deliveries", key: ["endpoint_id", "id"], isShown: true)
        .naming(erase: .scan(DeliveryUsers.scan, delete: DeliveryUsers.erase), merge: .keep)
        .exported(
            .scan(
                kind: "message",
                DeliveryUsers.export,
                columns: [
                    ExportedColumn("endpoint_id", as: "webhook_id"), "id", ExportedColumn("event", as: "type"),
                    ExportedColumn("occurred_at", as: "timestamp"), "sequence", "data", "status", "attempt_count",
                    "next_attempt_at", "settled_at", ExportedColumn("last_status", as: "response_status"), "last_error",
                ]
            )
        )
        .plain("tried_since")
        .open("data")
        .aging(.steps([.deliveries]))

    static let webhookEndpoints = StoredTable("webhook_endpoints", key: ["id"], purge: .last)
        .sealed(
            .settings([
                SealedSetting("secret", isText: true) { .webhook(.secret, try $0.read("id")) },
                SealedSetting("previous_secret", isText: true) {
                    .webhook(.previousSecret, try $0.read("id"))
                },
            ])
        )
        .plain(
            "url",
            "description",
            "events",
            "status",
            "previous_until",
            "next_sequence",
            "feed_epoch",
            "feed_position",
            "failure_count",
            "failing_since",
            "paused_until",
            "last_error",
            "lease_token",
            "leased_until",
            "created_at",
            "updated_at"
        )
}

/// Messages about a user, about a write of the user, or about an entity that has the user's id.
enum DeliveryUsers {
    static let scan = NamingScan(
        "webhook_deliveries",
        "endpoint_id",
        "id",
        "uuid",
        where: naming("y"),
        least: NamingScan.Key(first: UUID.least.lowercased, second: UUID.least.lowercased)
    )

    /// Deletes the messages. Like every change of a delivery, the deletion requires locks on the endpoints of the
    /// deliveries, and no other locks.
    static let erase = Statement(
        "erase_webhook_deliveries",
        ["organization", "first_keys", "second_keys", "users"],
        """
        WITH held AS MATERIALIZED (
            SELECT p.id FROM webhook_endpoints p
            WHERE p.organization_id = :organization AND p.id = ANY (:first_keys::text[]::uuid[]) ORDER BY p.id FOR NO KEY UPDATE
        )
        DELETE FROM webhook_deliveries AS x
        USING unnest(:first_keys::text[]::uuid[], :second_keys::text[]::uuid[]) AS k (endpoint_id, id)
        WHERE x.organization_id = :organization AND x.endpoint_id = k.endpoint_id AND x.id = k.id
            AND (\(naming("x"))) AND (SELECT count(*) FROM held) >= 0
        """
    )

    static let export = Statement(
        "export_webhook_deliveries",
        ["organization", "first_keys", "second_keys", "users"],
        """
        SELECT (SELECT to_json(r) FROM (
            SELECT x.endpoint_id AS webhook_id, x.id, x.event AS type,
                \(ExportedColumn.time("x.occurred_at")) AS timestamp, x.sequence, x.data, x.status, x.attempt_count,
                CASE WHEN x.status = 'waiting' THEN \(ExportedColumn.time("x.next_attempt_at")) END AS next_attempt_at,
                \(ExportedColumn.time("x.settled_at")) AS settled_at, x.last_status AS response_status, x.last_error
            ) r) AS row
        FROM unnest(:first_keys::text[]::uuid[], :second_keys::text[]::uuid[]) AS k (endpoint_id, id)
        CROSS JOIN LATERAL (
            SELECT * FROM webhook_deliveries y
            WHERE y.organization_id = :organization AND y.endpoint_id = k.endpoint_id AND y.id = k.id
            OFFSET 0
        ) x
        WHERE \(naming("x"))
        """
    )

    private static func naming(_ row: String) -> String {
        "\(row).data ->> 'user_id' = ANY (:users::uuid[]::text[])"
            + " OR \(row).data ->> 'updated_by' = ANY (:users::uuid[]::text[])"
            + " OR \(row).data ->> 'server_id' = ANY (:users::uuid[]::text[])"
    }
}
