import Foundation
import GroupCommit
import Logging
import Postgres
import ServiceLifecycle
package import SyncModel

/// Takes edits that were made elsewhere into the feed, in groups; and judges anew those that had to wait.
package final class IngestCommit: Service {
    /// Events that one look finds.
    static let lookLimit: Int64 = 500
    /// Events of one organization that are judged together.
    static let releaseLimit = 100

    private let committers: Committers<IngestWork>
    private let catalog: Catalog
    private let pool: Pool
    private let bell: ParkedBell
    private let pruning: IngestPruning
    private let now: TimeSource
    private let failure: StoreFailure

    init(
        committers: Committers<IngestWork>,
        catalog: Catalog,
        pool: Pool,
        bell: ParkedBell,
        pruning: IngestPruning,
        now: @escaping TimeSource,
        failure: StoreFailure
    ) {
        self.committers = committers
        self.catalog = catalog
        self.pool = pool
        self.bell = bell
        self.pruning = pruning
        self.now = now
        self.failure = failure
    }

    /// Takes a batch, together with others. The answer comes once the commit is durable.
    ///
    /// - Throws: the problem that refuses the whole batch; `overloaded` and `store_unavailable` with `retryAfter`.
    package func submit(_ request: IngestRequest, from bearer: ServiceTokens.Bearer) async throws(Problem)
        -> IngestAnswer
    {
        let partition = try await catalog.entry(bearer.organization).partition
        return try await committers.submit(ofPartition: partition) { reply in
            IngestJob(organization: bearer.organization, task: .take(request, bearer), reply: reply)
        }
    }

    /// Batches that wait for a committer, for metrics.
    package var waiting: Int { committers.waiting }

    /// Runs until graceful shutdown; batches queued by then are taken.
    package func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.committers.run() }
            group.addTask { await self.keepReleasing() }
            group.addTask {
                await cancelWhenGracefulShutdown {
                    while !Task.isCancelled {
                        self.bell.tick()
                        try? await Task.sleep(for: .seconds(1))
                    }
                }
            }
            group.addTask { await cancelWhenGracefulShutdown { await self.pruning.keepPruning() } }
            // the committers end last
            try await group.waitForAll()
        }
    }

    // MARK: - Events that wait

    private func keepReleasing() async {
        await cancelWhenGracefulShutdown {
            for await _ in self.bell.rings {
                if Task.isCancelled { return }
                await self.release()
            }
        }
    }

    /// Judges the events that are due, and those of organizations that requests have come back to.
    package func release() async {
        do {
            var found = try await parked(Query(Self.dueStatement, Parameters(now(), Self.lookLimit)))
            for organization in bell.take() {
                let parameters = Parameters(organization, Self.lookLimit)
                found += try await parked(Query(Self.ofOrganizationStatement, parameters))
            }
            for (organization, events) in Dictionary(grouping: Set(found), by: \.organization) {
                let events = Array(events)
                for start in stride(from: 0, to: events.count, by: Self.releaseLimit) {
                    let part = Array(events[start..<min(events.count, start + Self.releaseLimit)])
                    try await release(part, of: organization)
                }
            }
        } catch {
            // the next look finds them again; who cannot be reached is in the log
            _ = failure.problem(error, doing: "look for events that wait")
        }
    }

    private func release(_ events: [ParkedKey], of organization: UUID) async throws {
        do throws(Problem) {
            let partition = try await catalog.entry(organization).partition
            _ = try await committers.submit(ofPartition: partition) { (reply: OnceReply<IngestAnswer>) in
                IngestJob(organization: organization, task: .release(events), reply: reply)
            }
        } catch {
            // suspended, purged or sealed with keys that are not here: others' turn comes first
            let names = events.map { EventName(organization: $0.organization, source: $0.source, eventID: $0.eventID) }
            let until = now().adding(seconds: 30)
            _ = try await pool.run([EventName.columns.query(IngestStatements.postpone, names, at: until)])
        }
    }

    private func parked(_ query: Query) async throws -> [ParkedKey] {
        try await pool.run([query])[0].read { row in
            ParkedKey(
                organization: try row.uuid("organization_id"),
                source: try row.string("source"),
                eventID: try row.string("event_id"),
                entity: try row.entityKey(),
                causingKey: try row.optionalUUID("causing_key")
            )
        }
    }

    private static let list = "p.organization_id, p.source, p.event_id, p.entity_type, p.id, p.causing_key"

    static let dueStatement = Statement(
        "ingest_due",
        "SELECT \(list) FROM parked_events p WHERE p.look_at <= $1 ORDER BY p.look_at LIMIT $2"
    )

    static let ofOrganizationStatement = Statement(
        "ingest_due_of_organization",
        "SELECT \(list) FROM parked_events p WHERE p.organization_id = $1 LIMIT $2"
    )

    /// Which entities of organizations have events that wait: a thousand of each at most.
    static let waitingStatement = Statement(
        "ingest_waiting",
        """
        SELECT p.*
        FROM unnest($1::uuid[]) AS k (id)
        CROSS JOIN LATERAL (
            SELECT x.organization_id, x.entity_type, x.id FROM parked_events x WHERE x.organization_id = k.id LIMIT 1000
        ) p
        """
    )

    static let statements = [dueStatement, ofOrganizationStatement, waitingStatement]
}
