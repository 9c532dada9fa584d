import Postgres
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

    /// What the store keeps count of: its connections, and the pushes that wait for a committer.
    func addStoreMetrics(of store: Store) {
        let connections = "sluice_database_pool_connections"
        let created = "sluice_database_pool_connections_created_total"
        let waiting = "sluice_database_pool_waiting"
        let pushes = "sluice_commit_queue_pushes"
        describe(connections, kind: .gauge, help: "Connections of the pool, by state: idle, busy, connecting.")
        describe(created, kind: .counter, help: "Connections that the pool has made.")
        describe(waiting, kind: .gauge, help: "Callers that wait for a connection of the pool.")
        describe(pushes, kind: .gauge, help: "Pushes that wait for a committer.")
        onScrape { registry in
            let pool = store.poolStatistics
            registry.setGauge(connections, [("state", "idle")], to: Double(pool.idle))
            registry.setGauge(connections, [("state", "busy")], to: Double(pool.open - pool.idle))
            registry.setGauge(connections, [("state", "connecting")], to: Double(pool.connecting))
            registry.setCounter(created, to: Double(pool.created))
            registry.setGauge(waiting, to: Double(pool.waiting))
            registry.setGauge(pushes, to: Double(store.pushes.waiting))
        }
    }

    /// How well remembering verified tokens works.
    func addTokenMetrics(of verifier: TokenVerifier) {
        let cached = "sluice_tokens_cached"
        describe(cached, kind: .gauge, help: "Verified tokens that are remembered.")
        onScrape { $0.setGauge(cached, to: Double(verifier.cachedTokens)) }
    }
}
