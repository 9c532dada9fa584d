import FoundationEssentials
import Logging
import Metrics
import Postgres
import SyncModel

/// Deletes old records of events and requests.
///
/// The deletion runs short statements for one organization at a time.
struct IngestPruning: Sendable {
    /// The maximum number of rows that one statement deletes.
    static let batch: Int64 = 1_000
    /// The maximum number of organizations that one statement finds.
    static let organizationsAtATime: Int64 = 500
    static let interval: Duration = .seconds(600)

    let pool: Pool
    /// The storage periods of records. Ids of events are kept as long as idempotency records.
    ///
    /// Records of sent requests, by which echoes are recognized, are kept as long as payloads.
    let policy: RetentionPolicy
    let now: TimeSource
    let failure: StoreFailure

    func runPruneLoop() async {
        while !Task.isCancelled {
            do {
                try await prune()
            } catch {
                _ = failure.problem(error, doing: "delete old records of events")
            }
            try? await Task.sleep(for: Self.interval)
        }
    }

    func prune() async throws {
        let cutoffs = policy.cutoffs(at: now())
        var last = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        while !Task.isCancelled {
            let page = try await pool.run([
                Self.organizationsStatement(after: last, limit: Self.organizationsAtATime)
            ])[0].read {
                (id: try $0.read("organization_id", as: UUID.self), hasAny: try $0.read("has_any", as: Bool.self))
            }
            for (organization, hasAny) in page where hasAny {
                let events = Self.eventsStatement(
                    organization: organization,
                    before: cutoffs.everything,
                    limit: Self.batch
                )
                try await drain(events)
                let requests = Self.requestsStatement(
                    organization: organization,
                    before: cutoffs.payloads,
                    limit: Self.batch
                )
                try await drain(requests)
            }
            guard let end = page.last?.id else { return }
            last = end
        }
    }

    private func drain(_ query: Query) async throws {
        while !Task.isCancelled, try await pool.run([query])[0].affected == Self.batch {
            try? await Task.sleep(for: .milliseconds(50))
        }
    }

    /// Finds organizations with records of events or requests, including those without tokens or sources.
    static let organizationsStatement = Statement(
        "ingest_organizations",
        ["after", "limit"],
        """
        SELECT o.id AS organization_id,
            coalesce(
                (SELECT true FROM ingested_events e WHERE e.organization_id = o.id LIMIT 1),
                (SELECT true FROM sent_requests s WHERE s.organization_id = o.id LIMIT 1), false) AS has_any
        FROM (SELECT x.id FROM organizations x WHERE x.id > :after ORDER BY x.id LIMIT :limit) o
        ORDER BY o.id
        """,
        variant: """
            SELECT o.id AS organization_id,
                EXISTS (SELECT FROM ingested_events e WHERE e.organization_id = o.id)
                    OR EXISTS (SELECT FROM sent_requests s WHERE s.organization_id = o.id) AS has_any
            FROM organizations o
            WHERE o.id > :after
            ORDER BY o.id
            LIMIT :limit
            """
    )

    static let eventsStatement = Statement(
        "ingest_prune_events",
        ["organization", "before", "limit"],
        """
        DELETE FROM ingested_events WHERE organization_id = :organization AND result <> 'parked' AND received_at <= (
            SELECT max(k.received_at) FROM (
                SELECT x.received_at FROM ingested_events x
                WHERE x.organization_id = :organization AND x.received_at < :before AND x.result <> 'parked'
                ORDER BY x.received_at
                LIMIT :limit
            ) k)
        """
    )

    static let requestsStatement = Statement(
        "ingest_prune_requests",
        ["organization", "before", "limit"],
        """
        DELETE FROM sent_requests WHERE organization_id = :organization AND sent_at <= (
            SELECT max(k.sent_at) FROM (
                SELECT x.sent_at FROM sent_requests x
                WHERE x.organization_id = :organization AND x.sent_at < :before
                ORDER BY x.sent_at
                LIMIT :limit
            ) k)
        """
    )

    static let statements = [organizationsStatement, eventsStatement, requestsStatement]
}

/// Counts events by outcome.
///
/// A parked event is counted again when it gets its final outcome.
struct IngestMetrics: Sendable {
    private let counters: [IngestResult: Counter] = Dictionary(
        uniqueKeysWithValues: IngestResult.allCases.map { result in
            (result, Counter(label: StoreMetrics.ingestEvents, dimensions: [("result", result.rawValue)]))
        }
    )

    func record(_ verdicts: [IngestVerdict], isRelease: Bool) {
        // an event that remains parked was already counted when it arrived
        for verdict in verdicts where !(isRelease && verdict.result == .parked) {
            counters[verdict.result]?.increment()
        }
    }
}
