package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
import SyncStore

/// The database operations of the delivery workers.
///
/// Any number of replicas can use these operations at the same time. Each claim of an endpoint raises the lease's
/// token, and results under an older token are discarded. While a worker has the lease, it works in steps. Each step is
/// one transaction, which writes the results of earlier attempts and reads the deliveries to be sent next.
package struct WebhookStore: Sendable {
    /// The maximum number of deliveries of a step while its endpoint is healthy.
    ///
    /// While the endpoint fails, a step has up to ``failingBatch`` deliveries. Only the first is sent; the others are
    /// given up if they have waited for too long.
    package static let batch = 16
    static let failingBatch = 200
    /// The maximum number of entities that a step reads from the feed.
    static let feedPage = 100
    /// The time in seconds after which an endpoint's lease expires, unless a step renews the lease. No batch takes as
    /// long.
    package static let leaseSeconds: Double = 180
    /// The maximum number of endpoints that one search returns.
    package static let searchLimit = 500

    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let failure: StoreFailure
    private let ids = UUIDv7Generator()

    init(pool: Pool, catalog: Catalog, now: @escaping TimeSource, failure: StoreFailure) {
        self.pool = pool
        self.catalog = catalog
        self.now = now
        self.failure = failure
    }

    // MARK: - Recording

    /// Records events in a separate transaction.
    ///
    /// To record an event in the transaction of its change, use ``WebhookOutbox``.
    package func record(_ records: [WebhookRecord]) async throws(Problem) {
        guard !records.isEmpty else { return }
        _ = try await failure.reporting("record events for webhooks") {
            try await pool.transaction { connection in
                try await connection.runByIndex(WebhookOutbox.query(records, at: now()))
            }
        }
    }

    /// Records that an upstream became unavailable or available again, unless this state is already recorded.
    package func record(upstream organization: UUID, isDown: Bool, reason: String?) async throws(Problem) {
        let moment = now()
        let record = WebhookRecord.upstream(
            isDown: isDown,
            of: organization,
            reason: reason,
            id: ids.make(at: moment)
        )
        _ = try await failure.reporting("record an upstream's state") {
            try await pool.transaction { connection in
                let news = WebhookOutbox.upstream(record, at: moment)
                return try await connection.runByIndex(news)
            }
        }
    }

    // MARK: - Finding

    /// The endpoints that a search found, and the endpoint after which the next search continues (nil if no more
    /// endpoints follow).
    package typealias Found = (due: [WebhookKey], next: WebhookKey?)

    /// Returns endpoints with waiting deliveries, in the order of their keys. The search takes no locks.
    package func due(after key: WebhookKey?) async throws(Problem) -> Found {
        try await search(WebhookStatements.due, after: key) { try $0.read("is_due", as: Bool.self) }
    }

    /// Returns endpoints that have not received all changes of entities.
    package func behind(after key: WebhookKey?) async throws(Problem) -> Found {
        try await search(WebhookStatements.behind, after: key) { _ in true }
    }

    private func search(
        _ statement: Statement,
        after key: WebhookKey?,
        _ isDue: (inout RowReader) throws -> Bool
    ) async throws(Problem) -> Found {
        let parameters = Parameters(
            key?.organization ?? .least,
            key?.id ?? .least,
            now(),
            Int64(Self.searchLimit)
        )
        do {
            let rows = try await pool.transaction { connection in
                try await connection.runByIndex(Query(statement, parameters))
            }
            let found = try rows.read { row in
                let key = WebhookKey(organization: try row.read("organization_id"), id: try row.read("endpoint_id"))
                return (key, try isDue(&row))
            }
            return (found.filter(\.1).map(\.0), found.count < Self.searchLimit ? nil : found.last?.0)
        } catch {
            throw failure.problem(error, doing: "find due webhooks")
        }
    }

    // MARK: - Delivering

    /// A worker's lease of an endpoint.
    package struct Lease: Sendable {
        package let endpoint: WebhookKey
        package let token: Int64
        /// The time at which an operator last changed the endpoint before the claim. If an operator changes the
        /// endpoint during the lease, the messages of this lease are no longer sent.
        let updatedAt: Timestamp
        package let url: String
        /// The secrets, newest first; two during a rotation.
        package let secrets: [String]
    }

    /// Claims an endpoint if sending to it is allowed and no other worker has it.
    ///
    /// - Returns: the lease; nil if the endpoint cannot be claimed, or its organization is not served.
    package func claim(_ endpoint: WebhookKey) async throws(Problem) -> Lease? {
        guard let organization = try await catalog.organization(endpoint.organization), organization.status == .active
        else { return nil }
        let moment = now()
        do {
            return try await catalog.opening(endpoint.organization) { seal in
                let rows = try await pool.run([
                    WebhookStatements.claim(
                        organization: endpoint.organization,
                        endpoint: endpoint.id,
                        now: moment,
                        until: moment.adding(seconds: Self.leaseSeconds)
                    )
                ])[0]
                return try rows.read { row in
                    let token: Int64 = try row.read("lease_token")
                    let updatedAt: Timestamp = try row.read("updated_at")
                    let url: String = try row.read("url")
                    let secret = try seal.open(text: row.read("secret"), as: .webhook(.secret, endpoint.id))
                    let previous = try seal.open(
                        text: row.read("previous_secret"),
                        as: .webhook(.previousSecret, endpoint.id)
                    )
                    return Lease(
                        endpoint: endpoint,
                        token: token,
                        updatedAt: updatedAt,
                        url: url,
                        secrets: [secret, previous].compactMap(\.self)
                    )
                }.first
            }
        } catch {
            throw failure.problem(error, doing: "claim a webhook's endpoint")
        }
    }

    /// Deletes deliveries that remain of a deleted endpoint. Has no effect while the endpoint exists.
    package func dispose(of endpoint: WebhookKey) async throws(Problem) {
        _ = try await failure.reporting("delete the deliveries of a deleted webhook") {
            try await pool.transaction { connection in
                try await connection.runByIndex(
                    WebhookStatements.dispose(
                        organization: endpoint.organization,
                        endpoint: endpoint.id,
                        limit: Int64(5_000)
                    )
                )
            }
        }
    }

    /// The next step of a worker.
    package struct Step: Sendable {
        /// The deliveries to be sent; empty if the lease has ended with this step.
        package let deliveries: [WebhookDelivery]
        /// The endpoint's health. While the endpoint fails, only the first delivery is sent.
        package let health: WebhookHealth
        package let leasedUntil: Timestamp?
    }

    /// Returns the deliveries of a step that must still be sent.
    ///
    /// Since the step, an operator may have changed or deleted the endpoint, suspended or purged the organization, or
    /// erased the user that a delivery names.
    package func stillWaiting(_ deliveries: [UUID], _ lease: Lease) async throws(Problem) -> Set<UUID> {
        let endpoint = lease.endpoint
        do {
            let rows = try await pool.transaction { connection in
                try await connection.runByIndex(
                    WebhookStatements.find(
                        organization: endpoint.organization,
                        endpoint: endpoint.id,
                        token: lease.token,
                        updated_at: lease.updatedAt,
                        ids: deliveries
                    )
                )
            }
            return Set(try rows.read { try $0.read("id", as: UUID.self) })
        } catch {
            throw failure.problem(error, doing: "check deliveries")
        }
    }

    /// Writes the results of attempts, and returns the deliveries that are due next.
    ///
    /// - Parameters:
    ///   - outcomes: the outcomes of deliveries from earlier steps.
    ///   - answers: the endpoint's responses, in order.
    ///   - sameRound: the indices of answers to attempts that began before the last counted failure; a failure among
    ///     these answers is not counted.
    ///   - releases: whether the worker releases the endpoint.
    /// - Returns: the next step; nil if the lease was lost. In this case nothing was written.
    package func step(
        _ lease: Lease,
        _ outcomes: [WebhookOutcome] = [],
        answers: [WebhookAnswer] = [],
        sameRound: Set<Int> = [],
        releases: Bool = false
    ) async throws(Problem) -> Step? {
        do {
            return try await pool.transaction { connection in
                try await step(lease, outcomes, answers, sameRound, releases: releases, on: connection)
            }
        } catch {
            throw failure.problem(error, doing: "write deliveries")
        }
    }

    private func step(
        _ lease: Lease,
        _ outcomes: [WebhookOutcome],
        _ answers: [WebhookAnswer],
        _ sameRound: Set<Int>,
        releases: Bool,
        on connection: Connection
    ) async throws -> Step? {
        let (endpoint, moment) = (lease.endpoint, now())
        let locked = try await connection.runByIndex(
            WebhookStatements.lock(
                organization: endpoint.organization,
                endpoint: endpoint.id,
                token: lease.token,
                updated_at: lease.updatedAt
            )
        )
        guard var state = try locked.read(EndpointState.init).first else { return nil }
        for (index, answer) in answers.enumerated() {
            let isSameRound = sameRound.contains(index)
            state.health.record(answer, now: moment, jitter: .random(in: 0...1), isSameRound: isSameRound)
        }
        let rests = releases || !state.isServed || state.health.rests(at: moment)
        let limit = state.health.isOpen ? Self.failingBatch : Self.batch
        var queries: [Query] = []
        if !outcomes.isEmpty {
            let rows = outcomes.map { WebhookOutcomeRow(endpoint: endpoint, outcome: $0) }
            queries.append(WebhookStatements.outcomes.query(WebhookStatements.settle, rows, at: moment))
        }
        var deliveries: [WebhookDelivery] = []
        if !rests {
            let due = Parameters(of: endpoint.organization, endpoint.id, moment, limit)
            queries.append(Query(WebhookStatements.take, due))
            let taken = try await connection.run(queries)[queries.count - 1]
            queries = []
            deliveries = try taken.read(WebhookDelivery.init)
            let numbers = Self.number(&deliveries, of: endpoint, &state)
            // while many deliveries are due, the feed is not read; a later step reads the changes
            if deliveries.count < limit, state.feed != nil {
                let more = try await readFeed(endpoint, &state, moment, on: connection)
                // the remaining deliveries follow in the next step, because a worker takes only deliveries that it
                // sends soon
                deliveries += more.deliveries.prefix(limit - deliveries.count)
                if !more.rows.isEmpty {
                    queries.append(WebhookStatements.additions.query(WebhookStatements.add, more.rows, at: moment))
                }
            }
            if !numbers.isEmpty { queries.append(WebhookStatements.numbers.query(WebhookStatements.number, numbers)) }
        }
        let leasedUntil = deliveries.isEmpty ? nil : moment.adding(seconds: Self.leaseSeconds)
        queries.append(Query(WebhookStatements.write, state.parameters(of: endpoint, leasedUntil: leasedUntil)))
        _ = try await connection.run(queries)
        return Step(deliveries: deliveries, health: state.health, leasedUntil: leasedUntil)
    }

    /// Assigns sequence numbers to the deliveries that do not have one yet, in the order in which the events were
    /// recorded.
    ///
    /// The order is by id and not by time. A transaction determines its time before it waits for locks, so its events
    /// may be recorded after events with a later time.
    private static func number(
        _ deliveries: inout [WebhookDelivery],
        of endpoint: WebhookKey,
        _ state: inout EndpointState
    ) -> [WebhookNumberRow] {
        let unnumbered = deliveries.indices.filter { deliveries[$0].sequence == 0 }
        return unnumbered.sorted { deliveries[$0].id < deliveries[$1].id }.map { index in
            deliveries[index].sequence = state.takeNumber()
            return WebhookNumberRow(
                endpoint: endpoint,
                id: deliveries[index].id,
                sequence: deliveries[index].sequence
            )
        }
    }

    /// Creates a delivery of `entity.changed` for each entity that changed after the endpoint's position in the feed.
    private func readFeed(
        _ endpoint: WebhookKey,
        _ state: inout EndpointState,
        _ moment: Timestamp,
        on connection: Connection
    ) async throws -> (deliveries: [WebhookDelivery], rows: [WebhookNumberRow]) {
        guard let feed = state.feed else { return ([], []) }
        let found = try await connection.run(
            WebhookStatements.entities(
                organization: endpoint.organization,
                after: feed.position,
                epoch: feed.epoch,
                limit: Self.feedPage
            )
        )
        var (deliveries, rows): ([WebhookDelivery], [WebhookNumberRow]) = ([], [])
        for var row in found {
            let (epoch, last) = (try row.read("epoch", as: Int64.self), try row.read("last_position", as: Int64.self))
            guard let position: Int64 = try row.read("feed_position") else {
                // either no entities follow, or the epoch has changed: after a restore, the positions are different, so
                // the endpoint receives only changes after the last position
                state.feed = (epoch, last)
                break
            }
            state.feed = (epoch, position)
            let data = try Self.data(of: &row, position: position)
            let occurredAt: Timestamp = try row.read("updated_at")
            let (id, sequence) = (ids.make(at: moment), state.takeNumber())
            rows.append(
                WebhookNumberRow(
                    endpoint: endpoint,
                    id: id,
                    sequence: sequence,
                    data: data,
                    occurredAt: occurredAt
                )
            )
            deliveries.append(
                WebhookDelivery(
                    id: id,
                    event: .entityChanged,
                    data: data,
                    occurredAt: occurredAt,
                    sequence: sequence,
                    attemptCount: 0,
                    triedSince: moment
                )
            )
        }
        return (deliveries, rows)
    }

    private static func data(of row: inout RowReader, position: Int64) throws -> [UInt8] {
        let (type, id) = (try row.read("entity_type", as: String.self), try row.serverID())
        let clientID: UUID? = try row.read("client_id")
        let version: Int64 = try row.read("version")
        let isDeleted: Bool = try row.read("is_deleted")
        let writer: UUID = try row.read("updated_by")
        return JSONWriter.object { json in
            json.member("entity_type", type)
            json.member("server_id", id)
            json.member("client_id", clientID)
            json.member("version", version)
            json.member("deleted", isDeleted)
            json.member("updated_by", writer)
            json.member("feed_position", position)
        }
    }

    // MARK: - Metrics

    /// Counts of endpoints, over all organizations.
    package struct Stats: Sendable, Hashable {
        package var enabled = 0
        /// The number of enabled endpoints that are paused because no attempt succeeds.
        package var failing = 0
        package var gone = 0
        /// The time at which the first of the failing endpoints began to fail.
        package var failingSince: Timestamp?

        package init() {}
    }

    package func stats() async throws(Problem) -> Stats {
        do {
            let rows = try await pool.run([WebhookStatements.stats(failures: WebhookHealth.threshold)])[0]
            var stats = Stats()
            for var row in rows {
                stats.enabled = try row.read("enabled")
                stats.failing = try row.read("failing")
                stats.gone = try row.read("gone")
                stats.failingSince = try row.read("failing_since")
            }
            return stats
        } catch {
            throw failure.problem(error, doing: "count webhooks")
        }
    }
}

/// The parts of an endpoint's locked row that a step changes.
private struct EndpointState {
    /// Whether the worker with the lease may send messages.
    let isServed: Bool
    var nextSequence: Int64
    var feed: (epoch: Int64, position: Int64)?
    var health: WebhookHealth

    init(_ row: inout RowReader) throws {
        nextSequence = try row.read("next_sequence")
        let (epoch, position) = (
            try row.read("feed_epoch", as: Int64?.self), try row.read("feed_position", as: Int64?.self)
        )
        if let epoch, let position { feed = (epoch, position) }
        health = WebhookHealth(
            failureCount: try row.read("failure_count"),
            failingSince: try row.read("failing_since"),
            pausedUntil: try row.read("paused_until"),
            lastError: try row.read("last_error")
        )
        isServed = try row.read("is_served")
    }

    mutating func takeNumber() -> Int64 {
        defer { nextSequence += 1 }
        return nextSequence
    }

    func parameters(of endpoint: WebhookKey, leasedUntil: Timestamp?) -> Parameters {
        Parameters(
            of: endpoint.organization,
            endpoint.id,
            nextSequence,
            feed?.epoch,
            feed?.position,
            health.failureCount,
            health.failingSince,
            health.pausedUntil,
            health.lastError,
            health.isGone,
            leasedUntil
        )
    }
}

extension WebhookDelivery {
    fileprivate init(_ row: inout RowReader) throws {
        let (id, sequence) = (try row.read("id", as: UUID.self), try row.read("sequence", as: Int64?.self))
        self.init(
            id: id,
            event: try row.choice("event"),
            data: try row.read("data"),
            occurredAt: try row.read("occurred_at"),
            sequence: sequence ?? 0,
            attemptCount: try row.read("attempt_count"),
            triedSince: try row.read("tried_since")
        )
    }
}
