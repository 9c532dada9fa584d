import Postgres

/// The statements of ``WebhookAdministration``.
enum WebhookAdminStatements {
    static let list = Statement(
        "webhooks_list",
        """
        SELECT \(WebhookEndpointRow.list) FROM webhook_endpoints e
        WHERE e.organization_id = $1
        ORDER BY e.id
        """
    )

    static let get = Statement(
        "webhooks_get",
        "SELECT \(WebhookEndpointRow.list) FROM webhook_endpoints e WHERE e.organization_id = $1 AND e.id = $2"
    )

    /// An endpoint that subscribes to entities begins with the changes from now on.
    static let add = Statement(
        "webhooks_add_endpoint",
        """
        INSERT INTO webhook_endpoints AS e (
            organization_id, id, url, description, events, status, secret, feed_epoch, feed_position, created_at,
            updated_at)
        SELECT f.organization_id, $2::uuid, $3::text, $4::text, $5::text[], $6::text, $7::text,
            CASE WHEN $9 THEN f.epoch END, CASE WHEN $9 THEN f.last_position END, $8::timestamptz, $8::timestamptz
        FROM feeds f WHERE f.organization_id = $1
        RETURNING \(WebhookEndpointRow.list)
        """
    )

    static let change = Statement(
        "webhooks_change",
        """
        UPDATE webhook_endpoints AS e
        SET url = coalesce($3, e.url), description = coalesce($4, e.description),
            events = CASE WHEN $6 THEN $5 ELSE e.events END, status = coalesce($7, e.status),
            failure_count = CASE WHEN $7 = 'enabled' OR $3 <> e.url THEN 0 ELSE e.failure_count END,
            failing_since = CASE WHEN $7 = 'enabled' OR $3 <> e.url THEN NULL ELSE e.failing_since END,
            paused_until = CASE WHEN $7 = 'enabled' OR $3 <> e.url THEN NULL ELSE e.paused_until END,
            last_error = CASE WHEN $7 = 'enabled' OR $3 <> e.url THEN NULL ELSE e.last_error END,
            feed_epoch = CASE
                WHEN NOT $6 OR 'entity.changed' = ANY ($5) AND e.feed_epoch IS NOT NULL THEN e.feed_epoch
                WHEN 'entity.changed' = ANY ($5) THEN f.epoch END,
            feed_position = CASE
                WHEN NOT $6 OR 'entity.changed' = ANY ($5) AND e.feed_epoch IS NOT NULL THEN e.feed_position
                WHEN 'entity.changed' = ANY ($5) THEN f.last_position END,
            updated_at = $8
        FROM feeds f
        WHERE e.organization_id = $1 AND e.id = $2 AND f.organization_id = $1
        RETURNING \(WebhookEndpointRow.list)
        """
    )

    static let lockSecret = Statement(
        "webhooks_lock_secret",
        "SELECT e.secret FROM webhook_endpoints e WHERE e.organization_id = $1 AND e.id = $2 FOR NO KEY UPDATE"
    )

    static let rotate = Statement(
        "webhooks_rotate",
        """
        UPDATE webhook_endpoints AS e
        SET secret = $3, previous_secret = $4, previous_until = $5, updated_at = $6
        WHERE e.organization_id = $1 AND e.id = $2
        RETURNING \(WebhookEndpointRow.list)
        """
    )

    static let delete = Statement(
        "webhooks_delete",
        "DELETE FROM webhook_endpoints WHERE organization_id = $1 AND id = $2"
    )

    /// Whole keys come from what is found first: with the endpoint given, all of its rows would be compared with those.
    /// The same below.
    static let deleteDeliveries = Statement(
        "webhooks_delete_deliveries",
        """
        DELETE FROM webhook_deliveries AS d
        USING (
            SELECT x.organization_id, x.endpoint_id, x.id FROM webhook_deliveries x
            WHERE x.organization_id = $1 AND x.endpoint_id = $2
            ORDER BY x.id
            LIMIT $3
        ) k
        WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id
        """
    )

    static let test = Statement(
        "webhooks_test",
        """
        INSERT INTO webhook_deliveries AS d (
            organization_id, endpoint_id, id, event, data, occurred_at, status, tried_since, next_attempt_at)
        SELECT e.organization_id, e.id, $3, 'webhook.test', '{}', $4, 'waiting', $4, $4
        FROM webhook_endpoints e
        WHERE e.organization_id = $1 AND e.id = $2 AND e.status = 'enabled'
        """
    )

    static let page = Statement(
        "webhooks_page",
        """
        SELECT \(WebhookDeliveryRow.list)
        FROM webhook_deliveries d
        WHERE d.organization_id = $1 AND d.endpoint_id = $2 AND d.id < $3
        ORDER BY d.id DESC
        LIMIT $4
        """
    )

    static let pageOfStatus = Statement(
        "webhooks_page_of_status",
        """
        SELECT \(WebhookDeliveryRow.list)
        FROM webhook_deliveries d
        WHERE d.organization_id = $1 AND d.endpoint_id = $2 AND d.status = $5 AND d.id < $3
        ORDER BY d.id DESC
        LIMIT $4
        """
    )

    private static let again = """
        SET status = 'waiting', attempt_count = 0, tried_since = $3, next_attempt_at = $3, settled_at = NULL
        """

    static let retry = Statement(
        "webhooks_retry",
        """
        UPDATE webhook_deliveries AS d
        \(again)
        WHERE d.organization_id = $1 AND d.endpoint_id = $2 AND d.id = $4 AND CASE WHEN d.status = 'dead' THEN true END
        """
    )

    static let statusOf = Statement(
        "webhooks_status_of",
        "SELECT d.status FROM webhook_deliveries d WHERE d.organization_id = $1 AND d.endpoint_id = $2 AND d.id = $3"
    )

    static let retryAll = Statement(
        "webhooks_retry_all",
        """
        UPDATE webhook_deliveries AS d
        \(again)
        FROM (
            SELECT x.organization_id, x.endpoint_id, x.id FROM webhook_deliveries x
            WHERE x.organization_id = $1 AND x.endpoint_id = $2 AND x.status = 'dead'
            ORDER BY x.id
            LIMIT $4
        ) k
        WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id
        """
    )

    static let all = [
        list, get, add, change, lockSecret, rotate, delete, deleteDeliveries, test, page, pageOfStatus, retry,
        statusOf, retryAll,
    ]
}
