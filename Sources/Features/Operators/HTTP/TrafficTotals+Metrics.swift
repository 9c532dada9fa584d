import SyncHTTP
import SyncModel
import SyncStore
import Telemetry

extension TrafficTotals {
    /// The counters of this process, as `/metrics` shows them.
    init(_ registry: PrometheusRegistry) {
        self.init()
        func pushed(_ status: MutationStatus) -> Double {
            registry.total(HTTPMetrics.mutations, [("status", status.rawValue), ("replayed", "false")])
        }
        func sent(_ outcome: Outcome.Kind) -> Double {
            registry.total(StoreMetrics.upstreamAttempts, [("outcome", outcome.rawValue)])
        }
        pushes = registry.total(HTTPMetrics.pushes, [("result", "accepted")])
        accepted = MutationStatus.allCases.reduce(0) { $1 == .rejected ? $0 : $0 + pushed($1) }
        applied = pushed(.succeeded) + sent(.succeeded)
        failed = pushed(.failed) + pushed(.conflict) + sent(.rejected) + sent(.conflict)
    }
}
