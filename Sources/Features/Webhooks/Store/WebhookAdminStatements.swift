import Postgres

/// The statements of ``WebhookAdministration``.
enum WebhookAdminStatements {
    static let list = Statement(
        "webhooks_list",
        ["organization"],
        """
        SELECT \(WebhookEndpointRow.list) FROM webhook_endpoints e
        WHERE e.organization_id = :organization
        ORDER BY e.id
        """
    )

    static let get = Statement(
        "webhooks_get",
        ["organization", "endpoint"],
        "SELECT \(WebhookEndpointRow.list) FROM webhook_endpoints e WHERE e.organization_id = :organization AND e.id = :endpoint"
    )

    /// Adds an endpoint. If the endpoint subscribes to entities, it receives only later changes.
    static let add = Statement(
        "webhooks_add_endpoint",
        ["organization", "endpoint", "url", "description", "events", "status", "secret", "now", "takes_feed"],
        """
        INSERT INTO webhook_endpoints AS e (
            organization_id, id, url, description, events, status, secret, feed_epoch, feed_position, created_at,
            updated_at)
        SELECT f.organization_id, :endpoint::uuid, :url::text, :description::text, :events::text[], :status::text, :secret::text,
            CASE WHEN :takes_feed THEN f.epoch END, CASE WHEN :takes_feed THEN f.last_position END, :now::timestamptz, :now::timestamptz
        FROM feeds f WHERE f.organization_id = :organization
        RETURNING \(WebhookEndpointRow.list)
        """
    )

    static let change = Statement(
        "webhooks_change",
        ["organization", "endpoint", "url", "description", "events", "changes_events", "status", "now"],
        """
        UPDATE webhook_endpoints AS e
        SET url = coalesce(:url, e.url), description = coalesce(:description, e.description),
            events = CASE WHEN :changes_events THEN :events ELSE e.events END, status = coalesce(:status, e.status),
            failure_count = CASE WHEN :status = 'enabled' OR :url <> e.url THEN 0 ELSE e.failure_count END,
            failing_since = CASE WHEN :status = 'enabled' OR :url <> e.url THEN NULL ELSE e.failing_since END,
            paused_until = CASE WHEN :status = 'enabled' OR :url <> e.url THEN NULL ELSE e.paused_until END,
            last_error = CASE WHEN :status = 'enabled' OR :url <> e.url THEN NULL ELSE e.last_error END,
            feed_epoch = CASE
                WHEN NOT :changes_events OR 'entity.changed' = ANY (:events) AND e.feed_epoch IS NOT NULL THEN e.feed_epoch
                WHEN 'entity.changed' = ANY (:events) THEN f.epoch END,
            feed_position = CASE
                WHEN NOT :changes_events OR 'entity.changed' = ANY (:events) AND e.feed_epoch IS NOT NULL THEN e.feed_position
                WHEN 'entity.changed' = ANY (:events) THEN f.last_position END,
            updated_at = :now
        FROM feeds f
        WHERE e.organization_id = :organization AND e.id = :endpoint AND f.organization_id = :organization
        RETURNING \(WebhookEndpointRow.list)
        """
    )

    static let lockSecret = Statement(
        "webhooks_lock_secret",
        ["organization", "endpoint"],
        "SELECT e.secret FROM webhook_endpoints e WHERE e.organization_id = :organization AND e.id = :endpoint FOR NO KEY UPDATE"
    )

    static let rotate = Statement(
        "webhooks_rotate",
        ["organization", "endpoint", "secret", "previous_secret", "previous_until", "now"],
        """
        UPDATE webhook_endpoints AS e
        SET secret = :secret, previous_secret = :previous_secret, previous_until = :previous_until, updated_at = :now
        WHERE e.organization_id = :organization AND e.id = :endpoint
        RETURNING \(WebhookEndpointRow.list)
        """
    )

    static let delete = Statement(
        "webhooks_delete",
        ["organization", "endpoint"],
        "DELETE FROM webhook_endpoints WHERE organization_id = :organization AND id = :endpoint"
    )

    /// The sub-select returns whole keys, and PostgreSQL looks up each key in the primary key's index. If the outer
    /// condition had the parameters in place of the key's organization and endpoint, PostgreSQL would read all rows of
    /// the endpoint, and join them with the sub-select. The statements below are written in the same way.
    static let deleteDeliveries = Statement(
        "webhooks_delete_deliveries",
        ["organization", "endpoint", "limit"],
        """
        DELETE FROM webhook_deliveries AS d
        USING (
            SELECT x.organization_id, x.endpoint_id, x.id FROM webhook_deliveries x
            WHERE x.organization_id = :organization AND x.endpoint_id = :endpoint
            ORDER BY x.id
            LIMIT :limit
        ) k
        WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id
        """
    )

    static let test = Statement(
        "webhooks_test",
        ["organization", "endpoint", "id", "now"],
        """
        INSERT INTO webhook_deliveries AS d (
            organization_id, endpoint_id, id, event, data, occurred_at, status, tried_since, next_attempt_at)
        SELECT e.organization_id, e.id, :id, 'webhook.test', '{}', :now, 'waiting', :now, :now
        FROM webhook_endpoints e
        WHERE e.organization_id = :organization AND e.id = :endpoint AND e.status = 'enabled'
        """
    )

    static let page = Statement(
        "webhooks_page",
        ["organization", "endpoint", "before", "limit"],
        """
        SELECT \(WebhookDeliveryRow.list)
        FROM webhook_deliveries d
        WHERE d.organization_id = :organization AND d.endpoint_id = :endpoint AND d.id < :before
        ORDER BY d.id DESC
        LIMIT :limit
        """
    )

    static let pageOfStatus = Statement(
        "webhooks_page_of_status",
        ["organization", "endpoint", "before", "limit", "status"],
        """
        SELECT \(WebhookDeliveryRow.list)
        FROM webhook_deliveries d
        WHERE d.organization_id = :organization AND d.endpoint_id = :endpoint AND d.status = :status AND d.id < :before
        ORDER BY d.id DESC
        LIMIT :limit
        """
    )

    private static let again = """
        SET status = 'waiting', attempt_count = 0, tried_since = :now, next_attempt_at = :now, settled_at = NULL
        """

    static let retry = Statement(
        "webhooks_retry",
        ["organization", "endpoint", "now", "id"],
        """
        UPDATE webhook_deliveries AS d
        \(again)
        WHERE d.organization_id = :organization AND d.endpoint_id = :endpoint AND d.id = :id AND CASE WHEN d.status = 'dead' THEN true END
        """
    )

    static let statusOf = Statement(
        "webhooks_status_of",
        ["organization", "endpoint", "id"],
        "SELECT d.status FROM webhook_deliveries d WHERE d.organization_id = :organization AND d.endpoint_id = :endpoint AND d.id = :id"
    )

    static let retryAll = Statement(
        "webhooks_retry_all",
        ["organization", "endpoint", "now", "limit"],
        """
        UPDATE webhook_deliveries AS d
        \(again)
        FROM (
            SELECT x.organization_id, x.endpoint_id, x.id FROM webhook_deliveries x
            WHERE x.organization_id = :organization AND x.endpoint_id = :endpoint AND x.status = 'dead'
            ORDER BY x.id
            LIMIT :limit
        ) k
        WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id
        """
    )

    static let all = [
        list, get, add, change, lockSecret, rotate, delete, deleteDeliveries, test, page, pageOfStatus, retry,
        statusOf, retryAll,
    ]
}
