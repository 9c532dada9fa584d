import Postgres
import SyncDispatch
import SyncModel
import SyncStore
import Telemetry
import Tokens

extension PrometheusRegistry {
    /// `sluice_build_info`, always 1: its label says which version runs.
    func addBuildInformation() {
        describe("sluice_build_info", kind: .gauge, help: "Always 1; the label tells the version.")
        onScrape { $0.setGauge("sluice_build_info", [("version", Version.current)], to: 1) }
    }

    /// What committers count. Comes before the store is made: a metric is described as it was when it was made.
    func describeCommitGroups() {
        let group = "sluice_commit_group_"
        describe(group + "pushes", kind: .histogram, help: "Pushes committed in one transaction.")
        describe(group + "mutations", kind: .histogram, help: "Mutations committed in one transaction.")
        describe(group + "duration_seconds", kind: .histogram, help: "Time from a group's first read to its commit.")
        describe(group + "retries_total", kind: .counter, help: "Groups tried again, by the reason.")
    }

    func describePulls() {
        describe(
            "sluice_settledness_looks_total",
            kind: .counter,
            help: "Looks whether blocked mutations are settled, by how they ended: complete, cut, failed."
        )
        describe(DevicePuller.assigned, kind: .counter, help: "Numbers that pulls gave to entities new to a device.")
    }

    /// What is counted of rows that are read. Comes before the store is made.
    func describeSealing() {
        describe(
            StoreMetrics.unreadableValues,
            kind: .counter,
            help: "Sealed values that could not be opened when their rows were read."
        )
    }

    /// What is counted of lanes and of requests to upstreams. Comes before the dispatcher is made.
    func describeDispatch() {
        let group = "sluice_lane_group_"
        describe(group + "steps", kind: .histogram, help: "Steps of lanes committed in one transaction.")
        describe(group + "mutations", kind: .histogram, help: "Mutations in them.")
        describe(group + "duration_seconds", kind: .histogram, help: "Time from a group's first read to its commit.")
        describe(group + "retries_total", kind: .counter, help: "Groups of lane steps tried again, by the reason.")
        describe(
            DispatchMetrics.attempts,
            kind: .counter,
            help: "Requests sent to upstreams, by what came of them."
        )
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
        describe(
            DispatchMetrics.leasesLost,
            kind: .counter,
            help: "Outcomes thrown away because another worker had taken the lane."
        )
    }

    /// How lanes stand: here, and in the database over all replicas as of the last count.
    func addDispatchMetrics(of dispatcher: Dispatcher, _ census: LaneCensus) {
        let lanes = "sluice_lanes"
        let here = "sluice_dispatcher_lanes"
        let circuits = "sluice_upstream_circuits_open"
        let oldest = "sluice_oldest_pending_mutation_seconds"
        describe(
            lanes,
            kind: .gauge,
            help: "Lanes of all replicas, by state: running, due, waiting (back-off, circuit), halted (for a person)."
        )
        describe(here, kind: .gauge, help: "Lanes that this replica has in hand, by state: running, waiting.")
        describe(circuits, kind: .gauge, help: "Upstreams to which this replica sends nothing.")
        describe(oldest, kind: .gauge, help: "Age of the oldest mutation that is pending or in flight; 0 without any.")
        onScrape { registry in
            let current = dispatcher.current
            registry.setGauge(here, [("state", "running")], to: Double(current.running))
            registry.setGauge(here, [("state", "waiting")], to: Double(current.waiting))
            registry.setGauge(circuits, to: Double(current.openCircuits))
            guard let census = census.findings.lanes else { return }
            registry.setGauge(lanes, [("state", "running")], to: Double(census.running))
            registry.setGauge(lanes, [("state", "due")], to: Double(census.due))
            registry.setGauge(lanes, [("state", "waiting")], to: Double(census.waiting))
            registry.setGauge(lanes, [("state", "halted")], to: Double(census.halted))
            let age = census.oldest.map { SystemClock.now().microseconds - $0.microseconds } ?? 0
            registry.setGauge(oldest, to: Double(max(0, age)) / 1_000_000)
        }
    }

    /// What is counted of retention. Comes before its service is made.
    func describeRetention() {
        describe(
            RetentionMetrics.rows,
            kind: .counter,
            help: "Rows that retention changed or deleted, by what they were."
        )
        describe(
            RetentionMetrics.stepDuration,
            kind: .histogram,
            help: "Time of a step of retention, from its first statement to its commit."
        )
    }

    func addRetentionMetrics(of retention: RetentionService) {
        let running = "sluice_retention_running"
        let overdue = "sluice_retention_due_since_seconds"
        let finished = "sluice_retention_last_success_timestamp_seconds"
        describe(running, kind: .gauge, help: "1 while this replica runs retention; at most one does.")
        describe(
            overdue,
            kind: .gauge,
            help: "How long the oldest row had been overdue when a run of this replica last left something; else 0."
        )
        describe(
            finished,
            kind: .gauge,
            help: "When retention last came to its end, on any replica; 0 before the first."
        )
        onScrape { registry in
            let state = retention.state
            registry.setGauge(running, to: state.isRunning ? 1 : 0)
            registry.setGauge(overdue, to: state.overdue)
            registry.setGauge(finished, to: Double(state.finishedAt?.microseconds ?? 0) / 1_000_000)
        }
    }

    /// The lanes of single organizations, where a setting allows their ids as labels.
    ///
    /// - Parameter limit: organizations that are named; the others are `other` together. 0 shows nothing.
    func addOrganizationMetrics(of census: LaneCensus, limit: Int) {
        guard limit > 0 else { return }
        let oldest = "sluice_organization_oldest_pending_mutation_seconds"
        let halted = "sluice_organization_lanes_halted"
        describe(
            oldest,
            kind: .gauge,
            help: "Age of an organization's oldest mutation that is pending or in flight, of those that waited longest."
        )
        describe(halted, kind: .gauge, help: "Lanes of these organizations that are halted for a person.")
        onScrape { registry in
            let found = census.findings
            let report = OrganizationReport(
                found.organizations,
                limit: limit,
                halted: found.lanes?.halted ?? 0,
                now: SystemClock.now()
            )
            registry.setGauges(oldest, report.rows.map { (labels: $0.labels, value: $0.seconds) })
            registry.setGauges(halted, report.rows.map { (labels: $0.labels, value: Double($0.halted)) })
        }
    }

    /// What the store keeps count of: its connections, and the pushes that wait for a committer.
    func addStoreMetrics(of store: Store) {
        let connections = "sluice_database_pool_connections"
        let created = "sluice_database_pool_connections_created_total"
        let maximum = "sluice_database_pool_connections_limit"
        let waiting = "sluice_database_pool_waiting"
        let waited = "sluice_database_pool_wait_seconds_total"
        let exhausted = "sluice_database_pool_exhausted_total"
        let pushes = "sluice_commit_queue_pushes"
        describe(connections, kind: .gauge, help: "Connections of the pool, by state: idle, busy, connecting.")
        describe(created, kind: .counter, help: "Connections that the pool has made.")
        describe(maximum, kind: .gauge, help: "Connections that the pool may have.")
        describe(waiting, kind: .gauge, help: "Callers that wait for a connection of the pool.")
        describe(waited, kind: .counter, help: "Time that callers have waited for a connection of the pool, in sum.")
        describe(
            exhausted,
            kind: .counter,
            help: "Callers who were refused as all connections of the pool were in use."
        )
        describe(pushes, kind: .gauge, help: "Pushes that wait for a committer.")
        let peers = "sluice_replica_peers"
        let hearing = "sluice_replica_hints_arrive"
        describe(peers, kind: .gauge, help: "Other replicas heard of within 16 seconds.")
        describe(
            hearing,
            kind: .gauge,
            help: "1 while NOTIFY from the database arrives; else 0, and what is watched is looked at 4 times a second."
        )
        onScrape { registry in
            let pool = store.poolStatistics
            registry.setGauge(connections, [("state", "idle")], to: Double(pool.idle))
            registry.setGauge(connections, [("state", "busy")], to: Double(pool.open - pool.idle))
            registry.setGauge(connections, [("state", "connecting")], to: Double(pool.connecting))
            registry.setCounter(created, to: Double(pool.created))
            registry.setGauge(maximum, to: Double(pool.maximum))
            registry.setGauge(waiting, to: Double(pool.waiting))
            registry.setCounter(waited, to: pool.waited / .seconds(1))
            registry.setCounter(exhausted, to: Double(pool.exhausted))
            registry.setGauge(pushes, to: Double(store.pushes.waiting))
            registry.setGauge(peers, to: Double(store.notifier.peers))
            registry.setGauge(hearing, to: store.notifier.isHearing ? 1 : 0)
        }
    }

    /// How well remembering verified tokens works, and how fresh the keys are that they are verified by.
    func addTokenMetrics(of verifier: TokenVerifier, _ keeper: KeyKeeper) {
        let cached = "sluice_tokens_cached"
        describe(cached, kind: .gauge, help: "Verified tokens that are remembered.")
        let refreshes = "sluice_jwks_refreshes_total"
        let age = "sluice_jwks_age_seconds"
        let missing = "sluice_jwks_missing"
        let broken = "sluice_jwt_files_broken"
        describe(refreshes, kind: .counter, help: "Fetches of key sets, by outcome: changed, unchanged, failed.")
        describe(age, kind: .gauge, help: "Time since the key set fetched longest ago was; absent without any.")
        describe(missing, kind: .gauge, help: "Key sets that have never been fetched.")
        describe(
            broken,
            kind: .gauge,
            help: "1 while files of keys or issuers cannot be used, and older ones are in force."
        )
        onScrape { registry in
            registry.setGauge(cached, to: Double(verifier.cachedTokens))
            registry.setGauge(broken, to: keeper.isFileBroken ? 1 : 0)
            let report = verifier.keyReport
            guard report.providers > 0 else { return }
            for (outcome, count) in report.refreshes {
                registry.setCounter(refreshes, [("outcome", outcome)], to: Double(count))
            }
            registry.setGauge(missing, to: Double(report.missing.count))
            guard let oldest = report.oldest else { return }
            let elapsed = SystemClock.now().microseconds - oldest.microseconds
            registry.setGauge(age, to: Double(max(0, elapsed)) / 1_000_000)
        }
    }
}
