package import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// The statements of the delivery workers.
enum WebhookStatements {
    /// Selects endpoints with waiting deliveries, in the order of their keys. The search looks up one delivery for each
    /// endpoint, regardless of the number of deliveries.
    ///
    /// The next search continues after the last endpoint of the result. Therefore the result also has endpoints that
    /// are not due (`is_due` is false).
    static let due = Statement(
        "webhooks_due",
        ["after_organization", "after_endpoint", "now", "limit"],
        """
        WITH RECURSIVE found AS (
            (
                SELECT d.organization_id, d.endpoint_id, d.next_attempt_at
                FROM webhook_deliveries d
                WHERE d.status = 'waiting' AND (d.organization_id, d.endpoint_id) > (:after_organization, :after_endpoint)
                ORDER BY d.organization_id, d.endpoint_id, d.next_attempt_at
                LIMIT 1
            )
            UNION ALL
            SELECT n.organization_id, n.endpoint_id, n.next_attempt_at
            FROM found f
            CROSS JOIN LATERAL (
                SELECT d.organization_id, d.endpoint_id, d.next_attempt_at
                FROM webhook_deliveries d
                WHERE d.status = 'waiting' AND (d.organization_id, d.endpoint_id) > (f.organization_id, f.endpoint_id)
                ORDER BY d.organization_id, d.endpoint_id, d.next_attempt_at
                LIMIT 1
            ) n
        )
        SELECT f.organization_id, f.endpoint_id, f.next_attempt_at <= :now AND coalesce(e.may_run, false) AS is_due
        FROM (SELECT * FROM found LIMIT :limit) f
        LEFT JOIN LATERAL (
            SELECT x.status = 'enabled' AND coalesce(x.leased_until <= :now, true)
                AND coalesce(x.paused_until <= :now, true) AS may_run
            FROM webhook_endpoints x
            WHERE x.organization_id = f.organization_id AND x.id = f.endpoint_id
            OFFSET 0
        ) e ON true
        """,
        // on a Citus cluster, a scan of the index of deliveries would read from all servers; therefore this variant
        // scans the endpoints
        variant: """
            SELECT e.organization_id, e.id AS endpoint_id,
                e.status = 'enabled' AND coalesce(e.leased_until <= :now, true) AND coalesce(e.paused_until <= :now, true)
                    AND EXISTS (
                        SELECT FROM webhook_deliveries d
                        WHERE d.organization_id = e.organization_id AND d.endpoint_id = e.id AND d.status = 'waiting'
                            AND d.next_attempt_at <= :now) AS is_due
            FROM webhook_endpoints e
            WHERE (e.organization_id, e.id) > (:after_organization, :after_endpoint)
            ORDER BY e.organization_id, e.id
            LIMIT :limit
            """
    )

    /// Selects endpoints that subscribe to entities and have not received all changes. It reads small tables, without
    /// locks.
    static let behind = Statement(
        "webhooks_behind",
        ["after_organization", "after_endpoint", "now", "limit"],
        """
        SELECT e.organization_id, e.id AS endpoint_id
        FROM webhook_endpoints e
        CROSS JOIN LATERAL (
            SELECT x.last_position, x.epoch FROM feeds x WHERE x.organization_id = e.organization_id OFFSET 0
        ) f
        WHERE (e.organization_id, e.id) > (:after_organization, :after_endpoint) AND e.status = 'enabled' AND e.feed_position IS NOT NULL
            AND (f.last_position > e.feed_position OR f.epoch <> e.feed_epoch)
            AND coalesce(e.leased_until <= :now, true) AND coalesce(e.paused_until <= :now, true)
        ORDER BY e.organization_id, e.id
        LIMIT :limit
        """
    )

    static let claim = Statement(
        "webhooks_claim",
        ["organization", "endpoint", "now", "until"],
        """
        UPDATE webhook_endpoints AS e
        SET lease_token = e.lease_token + 1, leased_until = :until
        WHERE e.organization_id = :organization AND e.id = :endpoint AND e.status = 'enabled' AND coalesce(e.leased_until <= :now, true)
            AND coalesce(e.paused_until <= :now, true)
        RETURNING e.lease_token, e.updated_at, e.url, e.secret,
            CASE WHEN e.previous_until > :now THEN e.previous_secret END AS previous_secret
        """
    )

    /// Selects the deliveries of a worker (`ids`) that must still be sent.
    ///
    /// No delivery is selected in the following cases:
    /// - An operator has changed the endpoint since the worker claimed it (`updated_at`).
    /// - Another worker has the endpoint.
    /// - The organization is not active.
    static let find = Statement(
        "webhooks_look",
        ["organization", "endpoint", "token", "updated_at", "ids"],
        """
        SELECT d.id
        FROM webhook_endpoints e
        CROSS JOIN LATERAL (
            SELECT 1 FROM organizations o WHERE o.id = e.organization_id AND o.status = 'active' OFFSET 0
        ) o
        CROSS JOIN unnest(:ids::uuid[]) AS k (id)
        CROSS JOIN LATERAL (
            SELECT x.id FROM webhook_deliveries x
            WHERE x.organization_id = :organization AND x.endpoint_id = :endpoint AND x.id = k.id AND x.status = 'waiting'
            OFFSET 0
        ) d
        WHERE e.organization_id = :organization AND e.id = :endpoint AND e.lease_token = :token AND e.updated_at = :updated_at AND e.status = 'enabled'
        """
    )

    /// Locks the endpoint for a step; returns no row if another worker has the endpoint.
    static let lock = Statement(
        "webhooks_lock",
        ["organization", "endpoint", "token", "updated_at"],
        """
        SELECT e.next_sequence, e.feed_epoch, e.feed_position, e.failure_count, e.failing_since,
            e.paused_until, e.last_error,
            e.status = 'enabled' AND e.updated_at = :updated_at AND EXISTS (
                SELECT 1 FROM organizations o WHERE o.id = e.organization_id AND o.status = 'active') AS is_served
        FROM webhook_endpoints e
        WHERE e.organization_id = :organization AND e.id = :endpoint AND e.lease_token = :token AND e.leased_until IS NOT NULL
        FOR NO KEY UPDATE
        """
    )

    static let outcomes = Columns<WebhookOutcomeRow>(
        .value("organization_id", \.endpoint.organization),
        .value("endpoint_id", \.endpoint.id),
        .value("id", \.outcome.id),
        .value("status", \.outcome.status.rawValue),
        .value("attempt_count", \.outcome.attemptCount),
        .value("next_attempt_at", \.outcome.nextAttempt),
        .value("last_status", \.outcome.lastStatus),
        .value("last_error", \.outcome.lastError)
    )

    /// Writes outcomes. The lock of the endpoint prevents other transactions from changing its waiting deliveries.
    static let settle = Statement(
        "webhooks_settle",
        outcomes.inputs + ["now"],
        """
        UPDATE webhook_deliveries AS d
        SET status = k.status, attempt_count = k.attempt_count, next_attempt_at = k.next_attempt_at,
            settled_at = CASE WHEN k.status <> 'waiting' THEN :now::timestamptz END,
            last_status = k.last_status, last_error = k.last_error
        FROM \(outcomes.unnested(as: "k"))
        WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id
        """
    )

    static let take = Statement(
        "webhooks_take",
        ["organization", "endpoint", "now", "limit"],
        """
        SELECT d.id, d.sequence, d.event, d.data, d.occurred_at, d.attempt_count, d.tried_since
        FROM webhook_deliveries d
        WHERE d.organization_id = :organization AND d.endpoint_id = :endpoint AND d.status = 'waiting' AND d.next_attempt_at <= :now
        ORDER BY d.next_attempt_at, d.id
        LIMIT :limit
        """
    )

    static let numbers = Columns<WebhookNumberRow>(
        .value("organization_id", \.endpoint.organization),
        .value("endpoint_id", \.endpoint.id),
        .value("id", \.id),
        .value("sequence", \.sequence)
    )

    static let number = Statement(
        "webhooks_number",
        numbers.inputs,
        """
        UPDATE webhook_deliveries AS d SET sequence = k.sequence
        FROM \(numbers.unnested(as: "k"))
        WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id
        """
    )

    private static let changes = FeedOrder.entities(
        "e.*",
        where: "e.organization_id = :organization AND e.feed_position > :after AND f.epoch = :epoch",
        limit: ":limit"
    )

    /// Selects the feed's last position, and the entities after a position of the given epoch.
    ///
    /// Positions are in commit order, so no entity is skipped. If no entities follow, the result is one row without an
    /// entity.
    static let entities = Statement(
        "webhooks_entities",
        ["organization", "after", "epoch", "limit"],
        """
        SELECT f.epoch, f.last_position, n.feed_position, n.entity_type, n.id AS server_id,
            n.id_is_integer AS server_id_is_integer, n.client_id, n.version, n.is_deleted, n.updated_by, n.updated_at
        FROM feeds f
        LEFT JOIN LATERAL \(changes) n ON true
        WHERE f.organization_id = :organization
        ORDER BY n.feed_position
        """
    )

    static let additions = Columns<WebhookNumberRow>(
        .value("organization_id", \.endpoint.organization),
        .value("endpoint_id", \.endpoint.id),
        .value("id", \.id),
        .value("sequence", \.sequence),
        .json("data", \.data),
        .value("occurred_at", \.occurredAt)
    )

    /// Adds deliveries of `entity.changed` with consecutive numbers.
    static let add = Statement(
        "webhooks_add",
        additions.inputs + ["now"],
        """
        INSERT INTO webhook_deliveries AS d (
            \(additions.names), event, status, tried_since, next_attempt_at)
        SELECT \(additions.names(of: "k")), 'entity.changed', 'waiting', :now,
            :now
        FROM \(additions.unnested(as: "k"))
        """
    )

    /// Writes the endpoint's state at the end of a step. If `leased_until` is null, this also ends the lease.
    static let write = Statement(
        "webhooks_write",
        [
            "organization", "endpoint", "next_sequence", "feed_epoch", "feed_position", "failure_count",
            "failing_since", "paused_until", "last_error", "is_gone", "leased_until",
        ],
        """
        UPDATE webhook_endpoints AS e
        SET next_sequence = :next_sequence, feed_epoch = :feed_epoch, feed_position = :feed_position, failure_count = :failure_count, failing_since = :failing_since,
            paused_until = :paused_until, last_error = :last_error, status = CASE WHEN :is_gone THEN 'gone' ELSE e.status END,
            leased_until = :leased_until
        WHERE e.organization_id = :organization AND e.id = :endpoint
        """
    )

    /// Deletes the deliveries of a deleted endpoint. Such deliveries exist if an event was recorded during the
    /// deletion.
    static let dispose = Statement(
        "webhooks_dispose",
        ["organization", "endpoint", "limit"],
        """
        DELETE FROM webhook_deliveries AS d
        USING (
            SELECT x.organization_id, x.endpoint_id, x.id FROM webhook_deliveries x
            WHERE x.organization_id = :organization AND x.endpoint_id = :endpoint
                AND NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.organization_id = :organization AND e.id = :endpoint)
            ORDER BY x.id
            LIMIT :limit
        ) k
        WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id
        """
    )

    /// Counts endpoints, over all organizations, for metrics.
    static let stats = Statement(
        "webhooks_census",
        ["failures"],
        """
        SELECT count(*) FILTER (WHERE e.status = 'enabled') AS enabled,
            count(*) FILTER (WHERE e.status = 'enabled' AND e.failure_count >= :failures) AS failing,
            count(*) FILTER (WHERE e.status = 'gone') AS gone,
            min(e.failing_since) FILTER (WHERE e.status = 'enabled' AND e.failure_count >= :failures) AS failing_since
        FROM webhook_endpoints e
        """
    )

    static let all = [
        due, behind, claim, find, lock, settle, take, number, entities, add, write, dispose, stats,
    ]
}

/// An endpoint of an organization.
package struct WebhookKey: WorkItem, Hashable, Comparable {
    package let organization: UUID
    package let id: UUID

    package init(organization: UUID, id: UUID) {
        self.organization = organization
        self.id = id
    }

    package static func < (left: WebhookKey, right: WebhookKey) -> Bool {
        (left.organization, left.id) < (right.organization, right.id)
    }
}

struct WebhookOutcomeRow: Sendable {
    let endpoint: WebhookKey
    let outcome: WebhookOutcome
}

/// A delivery that gets its sequence number.
struct WebhookNumberRow: Sendable {
    let endpoint: WebhookKey
    let id: UUID
    let sequence: Int64
    /// The data of a new delivery.
    var data: [UInt8]?
    var occurredAt: Timestamp?
}
