import Postgres
import SyncDispatch
import SyncMaintenance
import SyncModel
import SyncStore
import Telemetry
import Tokens

extension PrometheusRegistry {
    /// Describes metrics that code counts directly. To be called before that code creates them: a metric keeps the
    /// description that it was created with.
    func describeGateway() {
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
            (
                SourceMetrics.runs,
                "Runs of sources, and messages to them, by kind and outcome: succeeded, failed, lost, unauthorized."
            ),
            (
                SourceMetrics.retries,
                "Batches of sources that were handed in again, by kind and reason: too_large, unavailable, parked."
            ),
            (
                SourceMetrics.events,
                "Events that sources brought, by kind and what became of them; ignored where no rule is for them."
            ),
            (DispatchMetrics.attempts, "Requests sent to upstreams, by what came of them."),
            (DispatchMetrics.leasesLost, "Outcomes thrown away because another worker had taken the lane."),
            (
                WebhookMetrics.attempts,
                "Attempts to deliver webhooks, by what became of the delivery: delivered, waiting (tried again), dead."
            ),
            (WebhookMetrics.leasesLost, "Attempts thrown away because another worker had taken the webhook."),
            (RetentionMetrics.rows, "Rows that retention changed or deleted, by what they were."),
            (MaintenanceMetrics.erasedUsers, "Users whose data were erased, by this replica."),
            (MaintenanceMetrics.untoldErasures, "Attempts to tell an upstream of an erasure that were in vain."),
            (MaintenanceMetrics.unfinishedActs, "Acts of operators whose outcome could not be written to the audit."),
            (MaintenanceMetrics.joinedUsers, "Users that operators joined into others, through this replica."),
            (OperationMetrics.mutations, "Mutations that operators' operations looked at here, by what came of them."),
            (OperationMetrics.ended, "Operators' operations that came to their end here, by how."),
        ]
        for (name, help) in counters { describe(name, kind: .counter, help: help) }
        describe(
            DispatchMetrics.requestDuration,
            kind: .histogram,
            help: "Time that requests to upstreams took, time-outs included.",
            buckets: MetricBuckets.seconds + [30, 60, 90]
        )
        describe(
            WebhookMetrics.requestDuration,
            kind: .histogram,
            help: "Time that requests to webhooks took, time-outs included."
        )
        describe(
            DispatchMetrics.completion,
            kind: .histogram,
            help: "Time from a forwarded mutation's acceptance to its final outcome.",
            buckets: MetricBuckets.upToADay
        )
        let step = "Time of a step of retention, from its first statement to its commit."
        describe(RetentionMetrics.stepDuration, kind: .histogram, help: step)
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

    /// The state of webhooks: here, and in the database over all organizations as of the last count.
    func addWebhookMetrics(of courier: WebhookCourier, _ census: WebhookCensus) {
        addGauge(
            "sluice_webhooks",
            "Webhooks of all organizations, by state: enabled, failing (of these, paused), gone (answered 410).",
            by: "state"
        ) {
            guard let found = census.findings else { return [:] }
            return ["enabled": found.enabled, "failing": found.failing, "gone": found.gone].mapValues(Double.init)
        }
        addGauge("sluice_webhooks_running", "Webhooks that this replica sends to.") { Double(courier.current) }
        addGauge("sluice_webhooks_awaiting", "Webhooks that await an answer, and take no place.") {
            Double(courier.awaiting)
        }
        addGauge(
            "sluice_webhook_failing_seconds",
            "How long the webhook has failed that has failed longest; 0 without any."
        ) {
            census.findings.map { $0.failingSince.map(Self.age) ?? 0 }
        }
    }

    /// The state of sources, in the database over all organizations as of the last count.
    func addSourceMetrics(of census: SourceCensus) {
        let name = "sluice_sources"
        let help = "Sources of all organizations that are served, by kind and state: ok, failing, disabled."
        describe(name, kind: .gauge, help: help)
        onScrape { registry in
            guard let found = census.findings else { return }
            for kind in SourceKind.allCases {
                let one = found[kind] ?? SourceStore.Census()
                for (state, count) in [("ok", one.ok), ("failing", one.failing), ("disabled", one.disabled)] {
                    registry.setGauge(name, [("kind", kind.rawValue), ("state", state)], to: Double(count))
                }
            }
        }
        addGauge(
            "sluice_source_last_success_seconds",
            "How long ago the source's last success was that has had none for longest, by kind; 0 without any.",
            by: "kind"
        ) {
            guard let found = census.findings else { return [:] }
            let workedOn = SourceKind.allCases.filter(\.isWorkedOn).map { kind in
                (kind.rawValue, found[kind]?.oldestSuccess.map(Self.age) ?? 0)
            }
            return Dictionary(uniqueKeysWithValues: workedOn)
        }
    }

    func addReplicationMetrics(of replication: ReplicationWorker) {
        addGauge("sluice_replications_running", "Databases of organizations whose log this replica follows.") {
            Double(replication.current)
        }
        addGauge(
            "sluice_replication_lag_bytes",
            "How far the slot that is furthest behind is behind its server's log, of those this replica looked at lately."
        ) { Double(replication.reports.map(\.lagBytes).max() ?? 0) }
        addGauge(
            "sluice_replication_retained_bytes",
            "The most log that a server keeps for a slot, of those this replica looked at lately."
        ) { Double(replication.reports.map(\.retainedBytes).max() ?? 0) }
        addGauge(
            "sluice_replication_slots",
            "Slots this replica looked at lately, by the server's wal_status: reserved, extended, unreserved, lost.",
            by: "wal_status"
        ) {
            let found = Dictionary(grouping: replication.reports, by: \.walStatus).mapValues { Double($0.count) }
            return Dictionary(uniqueKeysWithValues: SlotReport.walStatuses.map { ($0, found[$0] ?? 0) })
        }
    }

    func addPollerMetrics(of poller: Poller) {
        addGauge("sluice_polls_running", "Sources that this replica polls.") { Double(poller.current) }
        addGauge("sluice_polls_awaiting", "Sources that await an answer, and take no place.") {
            Double(poller.awaiting)
        }
    }

    func addRetentionMetrics(of retention: RetentionService) {
        addGauge("sluice_retention_running", "1 while this replica runs retention; at most one does.") {
            retention.state.isRunning ? 1 : 0
        }
        addGauge(
            "sluice_retention_due_since_seconds",
            "How long the oldest row had been overdue when a run of this replica last left something; else 0."
        ) { retention.state.overdue }
        addGauge(
            "sluice_retention_last_success_timestamp_seconds",
            "When retention last came to its end, on any replica; 0 before the first."
        ) { Double(retention.state.finishedAt?.microseconds ?? 0) / 1_000_000 }
    }

    func addErasureMetrics(of erasures: ErasureService) {
        addGauge("sluice_erasures_open", "Users who are being erased, on all replicas together; at most 1,000.") {
            Double(erasures.state.count)
        }
        addGauge(
            "sluice_erasures_open_since_timestamp_seconds",
            "When the first of the erasures that are under way began; 0 where there is none."
        ) { Double(erasures.state.since?.microseconds ?? 0) / 1_000_000 }
    }

    func addOperationMetrics(of operations: OperationService) {
        addGauge("sluice_operations_running", "Operators' operations that this replica works on.") {
            Double(operations.count)
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
