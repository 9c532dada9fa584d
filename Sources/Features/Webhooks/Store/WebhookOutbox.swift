import FoundationEssentials
package import Postgres
package import SyncModel
import SyncStore

/// Records deliveries in the transaction of the reported event, so that the event and its deliveries are committed
/// together.
package enum WebhookOutbox {
    /// Returns a query that adds a delivery for each endpoint of the organization that subscribes to the event.
    ///
    /// The query can be at any place in the transaction, because it takes no lock for which another transaction waits.
    ///
    /// - Parameter records: at least one record.
    package static func query(_ records: [WebhookRecord], at moment: Timestamp) -> Query {
        columns.query(recordStatement, records, at: moment)
    }

    private static let ids = OrderedUUIDs()

    /// Returns the id of a new record. The id is greater than all ids that this process has made before, because the
    /// deliveries to an endpoint are numbered in the order of their ids.
    static func makeID(at moment: Timestamp) -> UUID { ids.make(at: moment) }

    static let columns = Columns<WebhookRecord>(
        .value("organization_id", \.organization),
        .value("id", \.id),
        .value("event", \.event.rawValue),
        .json("data", \.data)
    )

    /// The values of a new delivery's columns: from a record `k`, its endpoint `e`, and the present time.
    private static let values =
        "k.organization_id, e.id, k.id, k.event, k.data, :now, 'waiting', :now, :now"
    private static let names =
        "organization_id, endpoint_id, id, event, data, occurred_at, status, tried_since, next_attempt_at"

    static let recordStatement = Statement(
        "webhooks_record",
        columns.inputs + ["now"],
        """
        INSERT INTO webhook_deliveries AS d (\(names))
        SELECT \(values)
        FROM \(columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.id FROM webhook_endpoints x
            WHERE x.organization_id = k.organization_id AND x.status = 'enabled' AND k.event = ANY (x.events)
            OFFSET 0
        ) e
        """
    )

    /// Returns queries that record that an upstream became unavailable or available again.
    ///
    /// If several replicas detect the change, only one records it.
    package static func upstream(_ record: WebhookRecord, at moment: Timestamp) -> [Query] {
        let isDown = record.event == .upstreamDown
        return [
            columns.query(isDown ? upstreamDownStatement : upstreamUpStatement, [record], at: moment),
            isDown ? columns.query(markDownStatement, [record], at: moment) : columns.query(markUpStatement, [record]),
        ]
    }

    static let upstreamDownStatement = Statement(
        "webhooks_upstream_down",
        columns.inputs + ["now"],
        upstreamChange("IS NULL", to: ":now"),
        variant: upstreamChange("IS NULL")
    )
    static let upstreamUpStatement = Statement(
        "webhooks_upstream_up",
        columns.inputs + ["now"],
        upstreamChange("IS NOT NULL", to: "NULL"),
        variant: upstreamChange("IS NOT NULL")
    )
    /// Marks the upstream in a separate query after the deliveries, because on a Citus cluster a statement cannot
    /// insert rows that depend on its own changes.
    static let markDownStatement = Statement(
        "webhooks_mark_down",
        columns.inputs + ["now"],
        upstreamMark("IS NULL", to: ":now")
    )
    static let markUpStatement = Statement(
        "webhooks_mark_up",
        columns.inputs,
        upstreamMark("IS NOT NULL", to: "NULL")
    )

    private static func upstreamMark(_ state: String, to value: String) -> String {
        """
        UPDATE upstreams AS u SET down_since = \(value)
            FROM \(columns.unnested(as: "n"))
            WHERE u.organization_id = n.organization_id AND u.down_since \(state)
            RETURNING u.organization_id
        """
    }

    private static func upstreamChange(_ state: String, to value: String) -> String {
        """
        WITH changed AS (
            \(upstreamMark(state, to: value))
        )
        INSERT INTO webhook_deliveries AS d (\(names))
        SELECT \(values)
        FROM changed c
        CROSS JOIN \(columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.id FROM webhook_endpoints x
            WHERE x.organization_id = c.organization_id AND x.status = 'enabled' AND k.event = ANY (x.events)
            OFFSET 0
        ) e
        """
    }

    /// The variant for a Citus cluster: locks the upstream's row and records the deliveries. A later query marks the
    /// upstream.
    private static func upstreamChange(_ state: String) -> String {
        """
        INSERT INTO webhook_deliveries AS d (\(names))
        SELECT \(values)
        FROM \(columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT u.down_since FROM upstreams u WHERE u.organization_id = k.organization_id AND u.down_since \(state)
            FOR UPDATE
        ) c
        CROSS JOIN LATERAL (
            SELECT x.id FROM webhook_endpoints x
            WHERE x.organization_id = k.organization_id AND x.status = 'enabled' AND k.event = ANY (x.events)
            OFFSET 0
        ) e
        """
    }

    static let statements = [
        recordStatement, upstreamDownStatement, upstreamUpStatement, markDownStatement, markUpStatement,
    ]
}
