import Postgres
import SyncModel

/// The statements of a group of events.
enum IngestStatements {
    private static let (keys, names) = (EntityRows.keys, EventName.columns)
    private static let places = EntityPlaceRow.columns

    // MARK: - Reading

    /// Locks the organizations that accept events.
    ///
    /// A purged organization accepts no events, and a purge waits for transactions with events.
    static let hold = Statement(
        "ingest_hold",
        ["organizations"],
        """
        SELECT o.id
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (
            SELECT x.id FROM organizations x WHERE x.id = k.organization_id AND x.status = 'active' FOR SHARE
        ) o
        """
    )

    static let seen = Statement(
        "ingest_seen",
        names.inputs,
        """
        SELECT e.*
        FROM \(names.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT \(names.names(of: "x")), x.result, x.received_at FROM ingested_events x
            WHERE x.organization_id = k.organization_id AND x.source = k.source AND x.event_id = k.event_id
            OFFSET 0
        ) e
        """
    )

    /// Finds users whose data were erased, or are being erased.
    static let erased = Statement(
        "ingest_erased",
        OwnerRow.columns.inputs,
        """
        SELECT k.organization_id, k.user_id
        FROM \(OwnerRow.columns.unnested(as: "k"))
        WHERE \(ErasedUsers.isErased("k.organization_id", "k.user_id"))
        """
    )

    /// Locks the first parked events about entities, and reads them.
    ///
    /// Events that another worker has locked are skipped. Documents are left out after the first `bytes` bytes.
    static let parked = Statement(
        "ingest_parked",
        keys.inputs + ["limit", "bytes"],
        """
        WITH found AS MATERIALIZED (
            SELECT l.*, row_number() OVER (
                    ORDER BY l.organization_id, l.entity_type, l.id, l.place, l.received_at, l.source, l.event_id
                ) AS number
            FROM \(keys.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT \(ParkedEventRow.columns.names(of: "x")) FROM parked_events x
                WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
                ORDER BY \(queue)
                LIMIT :limit
                FOR UPDATE SKIP LOCKED
            ) l
        )
        SELECT \(parkedColumns), p.bytes_before >= :bytes AS is_left_out
        FROM (
            SELECT s.*, coalesce(
                sum(s.bytes) OVER (ORDER BY s.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0
            )::bigint AS bytes_before
            FROM (
                SELECT r.*, (\(RowBytes.of(parkedDocuments, in: "r")))::bigint AS bytes
                FROM found r
                OFFSET 0
            ) s
        ) p
        ORDER BY p.number
        """
    )

    private static let parkedDocuments = RowBytes.Rows(
        table: "found",
        order: ["number"],
        columns: ["document"],
        limit: ":bytes"
    )

    private static let parkedColumns = ParkedEventRow.columns.names(
        of: "p",
        except: ["document": "CASE WHEN p.bytes_before < :bytes THEN p.document END AS document"]
    )

    /// The order in which an entity's events arrived.
    private static let queue = "x.place, x.received_at, x.source, x.event_id"

    /// Reads the first parked event about each entity, whether the event is locked or not.
    ///
    /// The statement runs after ``parked``. If the two statements return different first events, another worker is
    /// evaluating the earlier events.
    static let firstParked = Statement(
        "ingest_first_parked",
        keys.inputs,
        """
        SELECT p.*
        FROM \(keys.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT \(names.names(of: "x")) FROM parked_events x
            WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
            ORDER BY \(queue)
            LIMIT 1
        ) p
        """
    )

    /// Reads the place of the last parked event about each entity.
    ///
    /// The statement runs before the entities are locked. Therefore each earlier event has either already changed the
    /// entity, or is still parked at or before this place.
    static let lastPlaces = Statement(
        "ingest_last_places",
        keys.inputs,
        """
        SELECT p.*
        FROM \(keys.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.organization_id, x.entity_type, x.id, x.place FROM parked_events x
            WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
            ORDER BY x.place DESC
            LIMIT 1
        ) p
        """
    )

    /// Locks and reads entities.
    ///
    /// The result includes the version and time from the entity's source (the mark), and the sizes of documents.
    /// Documents are read in the order in which they are needed. A document is left out if the documents before it
    /// reach the limit of bytes.
    ///
    /// The size of a document is the length of its text. To determine this length, PostgreSQL may have to decompress
    /// the document. Therefore lengths are determined only until their sum reaches `measured_bytes`, which is at least
    /// `bytes`. For a document after that, the size can be the compressed size (``RowBytes``).
    static let lockEntities = Statement(
        "ingest_lock_entities",
        places.inputs + ["bytes", "measured_bytes"],
        """
        WITH found AS MATERIALIZED (
            SELECT e.*, k.place
            FROM \(places.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT \(EntityRows.list(of: "x")), x.source_version, x.source_at, x.source_at_fraction
                FROM entities x
                WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
                FOR UPDATE
            ) e
        )
        SELECT \(lockedColumns), e.source_version, e.source_at, e.source_at_fraction, e.bytes,
            e.bytes_before >= :bytes AS is_left_out
        FROM (
            SELECT s.*, coalesce(
                sum(s.bytes) OVER (ORDER BY s.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0
            )::bigint AS bytes_before
            FROM (
                SELECT r.*, (\(RowBytes.of(lockedDocuments, in: "r")))::bigint AS bytes
                FROM found r
                OFFSET 0
            ) s
        ) e
        """
    )

    /// Finds those of the given entities that exist and are not deleted.
    static let living = Statement(
        "ingest_living",
        keys.inputs,
        """
        SELECT e.*
        FROM \(keys.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.entity_type, x.id
            FROM entities x
            WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
                AND NOT x.is_deleted
            OFFSET 0
        ) e
        """
    )

    private static let lockedDocuments = RowBytes.Rows(
        table: "found",
        columns: ["document"],
        limit: ":measured_bytes"
    )

    private static let lockedColumns = EntityRows.list(
        of: "e",
        document: "CASE WHEN e.bytes_before < :bytes THEN e.document END"
    )

    private static let request = """
        x.organization_id, x.idempotency_key, x.entity_type, x.server_id, x.sent_at, x.answered_at, x.content, x.version,
                x.is_used
        """

    /// Reads the latest requests that the gateway sent about each entity.
    static let requests = Statement(
        "ingest_requests",
        keys.inputs,
        """
        SELECT s.*
        FROM \(keys.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT \(request)
            FROM sent_requests x
            WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.server_id = k.id
            ORDER BY x.sent_at DESC
            LIMIT \(requestsAnEntity)
        ) s
        """
    )

    /// The maximum number of requests that are read for each entity.
    static let requestsAnEntity = 64

    static let causes = Statement(
        "ingest_causes",
        RequestKeyRow.columns.inputs,
        """
        SELECT s.*
        FROM \(RequestKeyRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT \(request)
            FROM sent_requests x
            WHERE x.organization_id = k.organization_id AND x.idempotency_key = k.idempotency_key
            OFFSET 0
        ) s
        """
    )

    /// Reads the requests that the first parked events name as their causes.
    static let parkedCauses = Statement(
        "ingest_parked_causes",
        keys.inputs + ["limit"],
        """
        SELECT s.*
        FROM \(keys.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.organization_id, x.causing_key FROM parked_events x
            WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
            ORDER BY \(queue)
            LIMIT :limit
        ) p
        CROSS JOIN LATERAL (
            SELECT \(request)
            FROM sent_requests x
            WHERE x.organization_id = p.organization_id AND x.idempotency_key = p.causing_key
            OFFSET 0
        ) s
        """
    )

    /// Reads the first create in flight of each type.
    static let creates = Statement(
        "ingest_creates",
        TypeNameRow.columns.inputs + ["earliest"],
        """
        SELECT k.organization_id, k.entity_type, s.sent_at
        FROM \(TypeNameRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.sent_at
            FROM sent_requests x
            WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.server_id IS NULL
                AND x.answered_at IS NULL AND x.sent_at > :earliest
            ORDER BY x.sent_at
            LIMIT 1
        ) s
        """
    )

    static let parkedCounts = Statement(
        "ingest_parked_counts",
        ["organizations"],
        """
        SELECT k.organization_id, c.count
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (
            SELECT count(*) AS count
            FROM (
                SELECT FROM parked_events x WHERE x.organization_id = k.organization_id LIMIT \(IngestPlanner.parkedLimit)
            ) y
        ) c
        """
    )

    static let reading = [
        hold, seen, erased, parked, firstParked, lastPlaces, lockEntities, living, requests, causes, parkedCauses,
        creates,
        parkedCounts,
    ]

    // MARK: - Writing

    /// Records the ids and outcomes of events.
    ///
    /// If two replicas ingest the same event at the same moment, the primary key is violated in one of them. That
    /// replica then reads the data again, and plans its group again.
    static let remember = Statement(
        "ingest_remember",
        TakenEventRow.columns.inputs,
        """
        INSERT INTO ingested_events AS e (\(TakenEventRow.columns.names))
        SELECT k.* FROM \(TakenEventRow.columns.unnested(as: "k"))
        """
    )

    /// Keeps the records of events that are received repeatedly.
    static let refresh = Statement(
        "ingest_refresh",
        TakenEventRow.columns.inputs,
        """
        UPDATE ingested_events AS e SET received_at = k.received_at
        FROM \(TakenEventRow.columns.unnested(as: "k"))
        WHERE e.organization_id = k.organization_id AND e.source = k.source AND e.event_id = k.event_id
            AND e.received_at < k.received_at
        """
    )

    /// Records the outcomes of events that had been parked.
    static let settle = Statement(
        "ingest_settle",
        TakenEventRow.columns.inputs,
        """
        INSERT INTO ingested_events AS e (\(TakenEventRow.columns.names))
        SELECT k.* FROM \(TakenEventRow.columns.unnested(as: "k"))
        ON CONFLICT (organization_id, source, event_id) DO UPDATE SET result = excluded.result
        """
    )

    /// Deletes the records of events that were refused after they had been parked, so that they can be sent again.
    static let forget = Statement(
        "ingest_forget",
        names.inputs,
        """
        DELETE FROM ingested_events AS e
        USING \(names.unnested(as: "k"))
        WHERE e.organization_id = k.organization_id AND e.source = k.source AND e.event_id = k.event_id
        """
    )

    static let park = Statement(
        "ingest_park",
        ParkedEventRow.columns.inputs,
        """
        INSERT INTO parked_events AS p (\(ParkedEventRow.columns.names))
        SELECT k.* FROM \(ParkedEventRow.columns.unnested(as: "k"))
        """
    )

    static let unpark = Statement(
        "ingest_unpark",
        names.inputs,
        """
        DELETE FROM parked_events AS p
        USING \(names.unnested(as: "k"))
        WHERE p.organization_id = k.organization_id AND p.source = k.source AND p.event_id = k.event_id
        """
    )

    /// Postpones parked events.
    static let postpone = Statement(
        "ingest_postpone",
        names.inputs + ["until"],
        """
        UPDATE parked_events AS p
        SET look_at = :until
        FROM \(names.unnested(as: "k"))
        WHERE p.organization_id = k.organization_id AND p.source = k.source AND p.event_id = k.event_id
        """
    )

    /// Postpones all parked events about entities.
    static let postponeEntities = Statement(
        "ingest_postpone_entities",
        keys.inputs + ["until"],
        """
        UPDATE parked_events AS p
        SET look_at = :until
        FROM \(keys.unnested(as: "k"))
        WHERE p.organization_id = k.organization_id AND p.entity_type = k.entity_type AND p.id = k.id
        """
    )

    /// Postpones the later events about the entity of an event that remains parked.
    ///
    /// Each later event is postponed once, to its own time limit. Until then, it is evaluated only after the earlier
    /// event has been decided.
    static let deferFollowers = Statement(
        "ingest_defer_followers",
        QueuePlaceRow.columns.inputs,
        deferring("p.received_at + \(timeout)"),
        // on Citus, a column can only be set to an expression that does not depend on settings
        variant: deferring("(p.received_at AT TIME ZONE 'UTC' + \(timeout)) AT TIME ZONE 'UTC'")
    )

    private static let timeout = "make_interval(secs => \(IngestPlanner.timeoutSeconds))"

    private static func deferring(_ end: String) -> String {
        """
        UPDATE parked_events AS p
        SET look_at = \(end)
        FROM \(QueuePlaceRow.columns.unnested(as: "k"))
        WHERE p.organization_id = k.organization_id AND p.entity_type = k.entity_type AND p.id = k.id
            AND p.place >= k.place AND p.look_at < \(end)
        """
    }

    /// Makes the first remaining parked event about each entity due.
    static let wakeNext = Statement(
        "ingest_wake_next",
        keys.inputs + ["now"],
        """
        UPDATE parked_events AS p
        SET look_at = :now
        FROM \(keys.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.source, x.event_id FROM parked_events x
            WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
            ORDER BY \(queue)
            LIMIT 1
        ) n
        WHERE p.organization_id = k.organization_id AND p.source = n.source AND p.event_id = n.event_id
            AND p.look_at > :now
        """
    )

    static let useRequests = Statement(
        "ingest_use_requests",
        RequestKeyRow.columns.inputs,
        """
        UPDATE sent_requests AS s
        SET is_used = true
        FROM \(RequestKeyRow.columns.unnested(as: "k"))
        WHERE s.organization_id = k.organization_id AND s.idempotency_key = k.idempotency_key
        """
    )

    static let markEntities = Statement(
        "ingest_mark_entities",
        EntityMarkRow.columns.inputs,
        """
        UPDATE entities AS e
        SET source_version = k.source_version, source_at = k.source_at, source_at_fraction = k.source_at_fraction
        FROM \(EntityMarkRow.columns.unnested(as: "k"))
        WHERE e.organization_id = k.organization_id AND e.entity_type = k.entity_type AND e.id = k.id
        """
    )

    static let touchTokens = Statement(
        "ingest_touch_tokens",
        ["organizations", "ids", "now"],
        """
        UPDATE service_tokens AS t
        SET last_used_at = :now
        FROM unnest(:organizations::uuid[], :ids::uuid[]) AS k (organization_id, id)
        WHERE t.organization_id = k.organization_id AND t.id = k.id
            AND (t.last_used_at IS NULL OR t.last_used_at < :now)
        """
    )

    static let writing = [
        remember, refresh, settle, forget, park, unpark, postpone, postponeEntities, deferFollowers, wakeNext,
        useRequests, markEntities, touchTokens,
    ]
}
