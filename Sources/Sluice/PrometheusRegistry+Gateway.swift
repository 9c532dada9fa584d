import CommandSupport
import FoundationEssentials
import JSONText
import Postgres
import SyncDispatch
import SyncModel
import SyncStore
import SyncUpstream
import Telemetry
import Tokens
import TraceExport

extension PrometheusRegistry {
    /// Describes the metrics that other code updates as events occur.
    ///
    /// Call it before that code creates the metrics, because the description of a metric cannot change
    /// afterwards.
    func describeEngine() {
        describeGroups()
        let counters = [
            (
                "sluice_settledness_looks_total",
                "Checks whether blocked mutations are settled, by result: complete, cut, failed."
            ),
            (DevicePuller.assigned, "Local ids that pulls assigned to entities new to a device."),
            (ChannelMetrics.changedGrants, "Grants that began or ended, by source: entity, operator, token."),
            (
                ChannelMetrics.evaluatedEntities,
                "Entities whose channels were evaluated again, by result: written, unchanged, unreadable."
            ),
            (ChannelFeedReader.grantPages, "Pages that listed a channel which their user gained or lost."),
            (StoreMetrics.unreadableValues, "Encrypted values that could not be decrypted when their rows were read."),
            (
                StoreMetrics.identityLookups,
                "Database look-ups of subjects and external ids, by result: found, made, unknown."
            ),
            (
                StoreMetrics.ingestEvents,
                "Ingested events, by outcome: applied, stale, echo, parked, duplicate, refused."
            ),
            (DispatchMetrics.attempts, "Requests sent to upstreams, by outcome."),
            (
                DispatchMetrics.batches,
                "Batches sent to upstreams, by result: succeeded, partial, failed, split, refused."
            ),
            (DispatchMetrics.throttled, "Lane steps that waited for requests_per_second of an upstream."),
            (DispatchMetrics.batchParts, "Mutations in batches sent to upstreams."),
            (DispatchMetrics.failedBatchParts, "Mutations in answered batches that did not succeed."),
            (DispatchMetrics.leasesLost, "Outcomes discarded because another worker had leased the lane."),
            (TraceMetrics.exported, "Spans that the receiver of traces accepted."),
            (TraceMetrics.dropped, "Spans that were not exported, by reason: queue_full, refused, shutdown."),
            (TraceMetrics.failures, "Failed requests to the receiver of traces."),
            (StoreMetrics.unfinishedActs, "Operator actions whose outcome could not be written to the audit log."),
        ]
        for (name, help) in counters { describe(name, kind: .counter, help: help) }
        describe(
            DispatchMetrics.requestDuration,
            kind: .histogram,
            help: "Duration of requests to upstreams, including time-outs.",
            buckets: MetricBuckets.seconds + [30, 60, 90]
        )
        describe(DispatchMetrics.batchSize, kind: .histogram, help: "Mutations per batch sent to an upstream.")
        describe(
            DispatchMetrics.completion,
            kind: .histogram,
            help: "Time from the acceptance of a forwarded mutation to its final outcome.",
            buckets: MetricBuckets.upToADay
        )
    }

    /// Describes the metrics of group commit.
    private func describeGroups() {
        let push = "sluice_commit_group_"
        describe(push + "pushes", kind: .histogram, help: "Pushes committed in one transaction.")
        describe(push + "mutations", kind: .histogram, help: "Mutations committed in one transaction.")
        describe(push + "retries_total", kind: .counter, help: "Retried groups of pushes, by reason.")
        let lane = "sluice_lane_group_"
        describe(lane + "steps", kind: .histogram, help: "Lane steps committed in one transaction.")
        describe(lane + "mutations", kind: .histogram, help: "Mutations of lane steps committed in one transaction.")
        describe(lane + "retries_total", kind: .counter, help: "Retried groups of lane steps, by reason.")
        let events = "sluice_ingest_group_"
        describe(events + "batches", kind: .histogram, help: "Event batches committed in one transaction.")
        describe(events + "mutations", kind: .histogram, help: "Events of the batches committed in one transaction.")
        describe(events + "retries_total", kind: .counter, help: "Retried groups of event batches, by reason.")
        for group in [push, lane, events] {
            let help = "Time from a group's first read to its commit."
            describe(group + "duration_seconds", kind: .histogram, help: help)
            describe(group + "statements", kind: .histogram, help: "Statements per group, including retries.")
            describe(group + "round_trips", kind: .histogram, help: "Round trips to the database per group.")
        }
    }

    /// Adds `sluice_build_info`, which is always 1; its labels describe the program.
    func addBuildInformation() {
        let name = "sluice_build_info"
        describe(name, kind: .gauge, help: "Always 1; the labels are the version, the commit and the release of Swift.")
        setGauge(
            name,
            [("version", Version.current), ("commit", Version.commit), ("swift", Version.swift)],
            to: 1
        )
    }

    /// Adds metrics of the lanes in this gateway, and of the lanes of all gateways according to the last count in the
    /// database.
    ///
    /// - Parameter organizations: the number of organizations that have separate series, labeled with their ids. All
    ///   other organizations together have the label `other`. If the number is 0, there are no series of organizations.
    func addDispatchMetrics(of dispatcher: Dispatcher, _ stats: LaneStatsCollector, organizations: Int) {
        addGauge(
            "sluice_lanes",
            "Lanes of all replicas, by state: running, due, waiting (back-off, circuit), halted (action needed).",
            by: "state"
        ) {
            guard let lanes = stats.findings.lanes else { return [:] }
            return ["running": lanes.running, "due": lanes.due, "waiting": lanes.waiting, "halted": lanes.halted]
                .mapValues(Double.init)
        }
        addGauge(
            "sluice_dispatcher_lanes",
            "Lanes leased by this replica, by state: running, waiting.",
            by: "state"
        ) {
            let current = dispatcher.current
            return ["running": Double(current.running), "waiting": Double(current.waiting)]
        }
        addGauge(
            "sluice_dispatcher_places",
            "Running lanes of this replica, by state: working (of SLUICE_MAX_LANES), awaiting (a response).",
            by: "state"
        ) {
            let current = dispatcher.current
            return ["working": Double(current.working), "awaiting": Double(current.awaiting)]
        }
        addGauge("sluice_dispatcher_slow_lanes", "Running lanes of organizations whose upstreams are slow.") {
            Double(dispatcher.current.heldBySlow)
        }
        addGauge("sluice_upstream_requests_in_flight", "Requests to upstreams without a response yet, of this replica.")
        {
            Double(dispatcher.requestsInFlight.values.reduce(0, +))
        }
        addGauge(
            "sluice_upstream_held_request_bytes",
            "Bytes reserved for bodies of requests to upstreams: each body twice, at most 96 MiB."
        ) { Double(dispatcher.requestMemory.held) }
        addGauge("sluice_upstream_requests_waiting", "Requests to upstreams that wait for these bytes.") {
            Double(dispatcher.requestMemory.waiting)
        }
        addGauge("sluice_upstream_circuits_open", "Upstreams whose circuit breaker is open on this replica.") {
            Double(dispatcher.current.openCircuits)
        }
        addGauge("sluice_upstreams_paused", "Upstreams that operators have paused.") {
            stats.findings.lanes.map { Double($0.pausedUpstreams) }
        }
        addGauge(
            "sluice_oldest_pending_mutation_seconds",
            "Age of the oldest pending or in-flight mutation; 0 without such mutations."
        ) {
            stats.findings.lanes.map { $0.oldest.map(Self.age) ?? 0 }
        }
        if organizations > 0 { addOrganizationMetrics(of: dispatcher, stats, organizations: organizations) }
    }

    private func addOrganizationMetrics(of dispatcher: Dispatcher, _ stats: LaneStatsCollector, organizations: Int) {
        let oldest = "sluice_organization_oldest_pending_mutation_seconds"
        let halted = "sluice_organization_lanes_halted"
        let inFlight = "sluice_organization_upstream_requests_in_flight"
        describe(
            inFlight,
            kind: .gauge,
            help: "Requests in flight of the organizations with the most, on this replica."
        )
        let help =
            "Age of the oldest pending or in-flight mutation, for the organizations with the oldest ones."
        describe(oldest, kind: .gauge, help: help)
        describe(halted, kind: .gauge, help: "Halted lanes of these organizations, which need a person's action.")
        onScrape { registry in
            let found = stats.findings
            let report = OrganizationReport(
                found.organizations,
                limit: organizations,
                halted: found.lanes?.halted ?? 0,
                now: SystemClock.now()
            )
            registry.setGauges(oldest, report.rows.map { (labels: $0.labels, value: $0.seconds) })
            let requests = RequestReport(dispatcher.requestsInFlight, limit: organizations)
            registry.setGauges(inFlight, requests.rows.map { ([("organization", $0.organization)], Double($0.count)) })
            registry.setGauges(halted, report.rows.map { (labels: $0.labels, value: Double($0.halted)) })
        }
    }

    /// Adds the metric of spans that wait to be exported.
    func addTraceMetrics(of queue: SpanQueue) {
        addGauge("sluice_traces_queued", "Spans that wait to be exported.") { Double(queue.count) }
    }

    /// Adds metrics of the memory that upstreams' answers use.
    func addUpstreamMetrics(of upstream: HTTPUpstream) {
        addGauge(
            "sluice_upstream_held_answer_bytes",
            "Bytes reserved for bodies of upstreams' answers, of 64 MiB, until their outcome is written."
        ) { Double(upstream.room.held) }
        addGauge("sluice_upstream_answers_waiting", "Answers of upstreams that wait for these bytes, unread.") {
            Double(upstream.room.waiting)
        }
    }

    /// Adds metrics of the store's connections and memory, of pushes that wait for a committer, and of other gateways.
    func addStoreMetrics(of store: Store) {
        let pool = "sluice_database_pool_"
        addGauge(pool + "connections", "Connections of the pool, by state: idle, busy, connecting.", by: "state") {
            let pool = store.poolStatistics
            return ["idle": pool.idle, "busy": pool.open - pool.idle, "connecting": pool.connecting]
                .mapValues(Double.init)
        }
        addCounter(pool + "connections_created_total", "Connections opened by the pool.") {
            Double(store.poolStatistics.created)
        }
        addGauge(pool + "connections_limit", "Maximum connections of the pool.") {
            Double(store.poolStatistics.maximum)
        }
        addGauge(pool + "waiting", "Callers waiting for a connection of the pool.") {
            Double(store.poolStatistics.waiting)
        }
        addCounter(pool + "wait_seconds_total", "Total time that callers waited for a connection of the pool.") {
            store.poolStatistics.waited / .seconds(1)
        }
        addCounter(pool + "exhausted_total", "Callers rejected because all connections of the pool were in use.") {
            Double(store.poolStatistics.exhausted)
        }
        addGauge("sluice_subjects_cached", "Cached subjects and their users.") {
            Double(store.identities.remembered)
        }
        addGauge("sluice_commit_queue_pushes", "Pushes waiting for a committer.") { Double(store.pushes.waiting) }
        addGauge("sluice_replica_peers", "Other replicas, alive within 16 seconds.") { Double(store.notifier.peers) }
        addGauge(
            "sluice_replica_hints_arrive",
            "1 while notifications from the database arrive; otherwise 0, with polling 4 times per second."
        ) { store.notifier.isReceivingHints ? 1 : 0 }
    }

    /// Adds the metrics of the servers of a Citus cluster, if the database is a Citus cluster.
    func addClusterMetrics(of servers: ClusterServers) {
        addGauge(
            "sluice_cluster_server_up",
            "1 while a server of the Citus cluster responds to this replica's server; otherwise 0.",
            by: "server"
        ) { servers.findings.mapValues { $0 ? 1 : 0 } }
    }

    /// Adds metrics of the cache of verified tokens, and of the age of the keys.
    func addTokenMetrics(of verifier: TokenVerifier, _ keeper: JWKSRefresher) {
        addGauge("sluice_tokens_cached", "Cached verified tokens.") { Double(verifier.cachedTokens) }
        addGauge(
            "sluice_jwt_files_broken",
            "1 while changed files of keys or issuers are invalid and the previous ones are used; otherwise 0."
        ) {
            keeper.isFileBroken ? 1 : 0
        }
        addGauge("sluice_jwks_missing", "Key sets that have never been fetched.") {
            let report = verifier.keyReport
            return report.providers > 0 ? Double(report.missing.count) : nil
        }
        addGauge("sluice_jwks_age_seconds", "Time since the last fetch of the oldest key set; absent without sets.") {
            verifier.keyReport.oldest.map(Self.age)
        }
        let refreshes = "sluice_jwks_refreshes_total"
        describe(refreshes, kind: .counter, help: "Fetches of key sets, by outcome: changed, unchanged, failed.")
        onScrape { registry in
            let report = verifier.keyReport
            guard report.providers > 0 else { return }
            for (outcome, count) in report.refreshes {
                registry.setCounter(refreshes, [("outcome", outcome)], to: Double(count))
            }
        }
    }

    /// The age of a moment in seconds; 0 for a moment in the future.
    private static func age(of moment: Timestamp) -> Double {
        Double(max(0, SystemClock.now().microseconds - moment.microseconds)) / 1_000_000
    }
}

/// The counts of requests in flight: a row for each of the organizations with the most requests, and a row for all
/// others together.
struct RequestReport {
    struct Row: Equatable {
        /// The id, or `other`.
        let organization: String
        let count: Int
    }

    let rows: [Row]

    /// - Parameter limit: the number of organizations that have separate rows.
    init(_ counts: [UUID: Int], limit: Int) {
        let most = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        let rows = most.prefix(limit).map { Row(organization: $0.key.lowercased, count: $0.value) }
        self.rows = rows + [Row(organization: "other", count: most.dropFirst(limit).reduce(0) { $0 + $1.value })]
    }
}

/// Metrics of organizations: a row for each of the organizations that wait longest, and a row for all others together.
struct OrganizationReport {
    struct Row: Equatable {
        /// The id, or `other`.
        let organization: String
        /// The age of the oldest mutation that is pending or in flight; 0 without such a mutation.
        let seconds: Double
        /// The number of lanes that wait for a person's decision.
        let halted: Int

        var labels: [(String, String)] { [("organization", organization)] }
    }

    let rows: [Row]

    /// - Parameters:
    ///   - stats: the organizations, longest waiting first. If there are more than `limit`, the list has `limit` + 1
    ///     elements.
    ///   - halted: the number of halted lanes of all organizations.
    init(_ stats: [LaneStore.OrganizationStats], limit: Int, halted: Int, now: Timestamp) {
        func seconds(_ row: LaneStore.OrganizationStats) -> Double {
            let age = row.oldest.map { now.microseconds - $0.microseconds } ?? 0
            return Double(max(0, age)) / 1_000_000
        }
        var rows = stats.prefix(limit).map {
            Row(organization: $0.organization.lowercased, seconds: seconds($0), halted: $0.halted)
        }
        if stats.count > limit {
            // the two numbers were counted at slightly different times
            let others = max(0, halted - rows.reduce(0) { $0 + $1.halted })
            rows.append(Row(organization: "other", seconds: seconds(stats[limit]), halted: others))
        }
        self.rows = rows
    }
}
