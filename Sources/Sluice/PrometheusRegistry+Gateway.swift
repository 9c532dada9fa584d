import Postgres
import SyncDispatch
import SyncModel
import SyncStore
import SyncUpstream
import Telemetry
import Tokens

extension PrometheusRegistry {
    /// Describes metrics that code counts directly. To be called before that code creates them: a metric keeps the
    /// description that it was created with.
    func describeEngine() {
        let push = "sluice_commit_group_"
        describe(push + "pushes", kind: .histogram, help: "Pushes committed in one transaction.")
        describe(push + "mutations", kind: .histogram, help: "Mutations committed in one transaction.")
        describe(push + "retries_total", kind: .counter, help: "Groups tried again, by the reason.")
        let lane = "sluice_lane_group_"
        describe(lane + "steps", kind: .histogram, help: "Steps of lanes committed in one transaction.")
        describe(lane + "mutations", kind: .histogram, help: "Mutations in them.")
        describe(lane + "retries_total", kind: .counter, help: "Groups of lane steps tried again, by the reason.")
        let events = "sluice_ingest_group_"
        describe(events + "batches", kind: .histogram, help: "Batches of events committed in one transaction.")
        describe(events + "mutations", kind: .histogram, help: "Events in them.")
        describe(events + "retries_total", kind: .counter, help: "Groups of batches tried again, by the reason.")
        for group in [push, lane, events] {
            let help = "Time from a group's first read to its commit."
            describe(group + "duration_seconds", kind: .histogram, help: help)
            describe(group + "statements", kind: .histogram, help: "Statements that a group took, retries included.")
            describe(group + "round_trips", kind: .histogram, help: "Round trips to the database that a group took.")
        }
        let counters = [
            (
                "sluice_settledness_looks_total",
                "Looks whether blocked mutations are settled, by how they ended: complete, cut, failed."
            ),
            (DevicePuller.assigned, "Numbers that pulls gave to entities new to a device."),
            (StoreMetrics.unreadableValues, "Sealed values that could not be opened when their rows were read."),
            (
                StoreMetrics.identityLookups,
                "Look-ups in the database of what issuers call users and organizations: found, made, unknown."
            ),
            (
                StoreMetrics.ingestEvents,
                "Events from elsewhere by what became of them: applied, stale, echo, parked, duplicate, refused."
            ),
            (DispatchMetrics.attempts, "Requests sent to upstreams, by what came of them."),
            (DispatchMetrics.leasesLost, "Outcomes thrown away because another worker had taken the lane."),
            (StoreMetrics.unfinishedActs, "Acts of operators whose outcome could not be written to the audit."),
        ]
        for (name, help) in counters { describe(name, kind: .counter, help: help) }
        describe(
            DispatchMetrics.requestDuration,
            kind: .histogram,
            help: "Time that requests to upstreams took, time-outs included.",
            buckets: MetricBuckets.seconds + [30, 60, 90]
        )
        describe(
            DispatchMetrics.completion,
            kind: .histogram,
            help: "Time from a forwarded mutation's acceptance to its final outcome.",
            buckets: MetricBuckets.upToADay
        )
    }

    /// `sluice_build_info`, always 1: its label says which version runs.
    func addBuildInformation() {
        addGauge("sluice_build_info", "Always 1; the label tells the version.", by: "version") { [Version.current: 1] }
    }

    /// The state of lanes: here, and in the database over all replicas as of the last count.
    ///
    /// - Parameter organizations: how many are named by their ids, where a setting allows that; the others together
    ///   are `other`. 0 shows none of them.
    func addDispatchMetrics(of dispatcher: Dispatcher, _ census: LaneCensus, organizations: Int) {
        addGauge(
            "sluice_lanes",
            "Lanes of all replicas, by state: running, due, waiting (back-off, circuit), halted (for a person).",
            by: "state"
        ) {
            guard let lanes = census.findings.lanes else { return [:] }
            return ["running": lanes.running, "due": lanes.due, "waiting": lanes.waiting, "halted": lanes.halted]
                .mapValues(Double.init)
        }
        addGauge(
            "sluice_dispatcher_lanes",
            "Lanes that this replica has in hand, by state: running, waiting.",
            by: "state"
        ) {
            let current = dispatcher.current
            return ["running": Double(current.running), "waiting": Double(current.waiting)]
        }
        addGauge(
            "sluice_dispatcher_places",
            "Running lanes of this replica, by state: working (of SLUICE_MAX_LANES), awaiting (an upstream's answer).",
            by: "state"
        ) {
            let current = dispatcher.current
            return ["working": Double(current.working), "awaiting": Double(current.awaiting)]
        }
        addGauge("sluice_dispatcher_slow_lanes", "Running lanes of organizations whose upstreams are slow.") {
            Double(dispatcher.current.heldBySlow)
        }
        addGauge("sluice_upstream_circuits_open", "Upstreams to which this replica sends nothing.") {
            Double(dispatcher.current.openCircuits)
        }
        addGauge(
            "sluice_oldest_pending_mutation_seconds",
            "Age of the oldest mutation that is pending or in flight; 0 without any."
        ) {
            census.findings.lanes.map { $0.oldest.map(Self.age) ?? 0 }
        }
        guard organizations > 0 else { return }
        let oldest = "sluice_organization_oldest_pending_mutation_seconds"
        let halted = "sluice_organization_lanes_halted"
        let help =
            "Age of an organization's oldest mutation that is pending or in flight, of those that waited longest."
        describe(oldest, kind: .gauge, help: help)
        describe(halted, kind: .gauge, help: "Lanes of these organizations that are halted for a person.")
        onScrape { registry in
            let found = census.findings
            let report = OrganizationReport(
                found.organizations,
                limit: organizations,
                halted: found.lanes?.halted ?? 0,
                now: SystemClock.now()
            )
            registry.setGauges(oldest, report.rows.map { (labels: $0.labels, value: $0.seconds) })
            registry.setGauges(halted, report.rows.map { (labels: $0.labels, value: Double($0.halted)) })
        }
    }

    /// The memory that upstreams' answers take.
    func addUpstreamMetrics(of upstream: HTTPUpstream) {
        addGauge(
            "sluice_upstream_held_answer_bytes",
            "Bytes reserved for bodies of upstreams' answers, of 64 MiB, until their outcome is written."
        ) { Double(upstream.room.held) }
        addGauge("sluice_upstream_answers_waiting", "Answers of upstreams that wait for these bytes, unread.") {
            Double(upstream.room.waiting)
        }
    }

    /// The store's connections and memory, the pushes that wait for a committer, and other replicas.
    func addStoreMetrics(of store: Store) {
        let pool = "sluice_database_pool_"
        addGauge(pool + "connections", "Connections of the pool, by state: idle, busy, connecting.", by: "state") {
            let pool = store.poolStatistics
            return ["idle": pool.idle, "busy": pool.open - pool.idle, "connecting": pool.connecting]
                .mapValues(Double.init)
        }
        addCounter(pool + "connections_created_total", "Connections that the pool has made.") {
            Double(store.poolStatistics.created)
        }
        addGauge(pool + "connections_limit", "Connections that the pool may have.") {
            Double(store.poolStatistics.maximum)
        }
        addGauge(pool + "waiting", "Callers that wait for a connection of the pool.") {
            Double(store.poolStatistics.waiting)
        }
        addCounter(pool + "wait_seconds_total", "Time that callers have waited for a connection of the pool, in sum.") {
            store.poolStatistics.waited / .seconds(1)
        }
        addCounter(pool + "exhausted_total", "Callers who were refused as all connections of the pool were in use.") {
            Double(store.poolStatistics.exhausted)
        }
        addGauge("sluice_subjects_cached", "Subjects whose users are remembered.") {
            Double(store.identities.remembered)
        }
        addGauge("sluice_commit_queue_pushes", "Pushes that wait for a committer.") { Double(store.pushes.waiting) }
        addGauge("sluice_replica_peers", "Other replicas heard of within 16 seconds.") { Double(store.notifier.peers) }
        addGauge(
            "sluice_replica_hints_arrive",
            "1 while NOTIFY from the database arrives; else 0, and what is watched is looked at 4 times a second."
        ) { store.notifier.isHearing ? 1 : 0 }
    }

    /// The servers of a cluster, where the database is one.
    func addClusterMetrics(of servers: ClusterServers) {
        addGauge(
            "sluice_cluster_server_up",
            "1 while a server of the Citus cluster answers the one that this replica is connected to; else 0.",
            by: "server"
        ) { servers.findings.mapValues { $0 ? 1 : 0 } }
    }

    /// How well caching verified tokens works, and how fresh the verifying keys are.
    func addTokenMetrics(of verifier: TokenVerifier, _ keeper: KeyKeeper) {
        addGauge("sluice_tokens_cached", "Verified tokens that are remembered.") { Double(verifier.cachedTokens) }
        addGauge(
            "sluice_jwt_files_broken",
            "1 while files of keys or issuers cannot be used, and older ones are in force."
        ) {
            keeper.isFileBroken ? 1 : 0
        }
        addGauge("sluice_jwks_missing", "Key sets that have never been fetched.") {
            let report = verifier.keyReport
            return report.providers > 0 ? Double(report.missing.count) : nil
        }
        addGauge("sluice_jwks_age_seconds", "Time since the key set fetched longest ago was; absent without any.") {
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

    /// In seconds; 0 for a moment in the future.
    private static func age(of moment: Timestamp) -> Double {
        Double(max(0, SystemClock.now().microseconds - moment.microseconds)) / 1_000_000
    }
}
