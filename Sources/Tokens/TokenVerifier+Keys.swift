package import SyncModel
import Synchronization

/// Keys that are fetched.
extension TokenVerifier {
    /// The URLs that keys are fetched from.
    var remotes: [JWKSCache] { state.withLock { Array($0.remotes.values) } }

    /// Puts fetched keys in force.
    func takeKeys(of remote: JWKSCache) {
        state.withLock { state in
            state.table.takeKeys(of: remote)
            state.forget()
        }
    }

    func count(_ outcome: JWKSCacheState.Outcome) {
        state.withLock { $0.refreshes[outcome, default: 0] += 1 }
    }

    var configuration: TokenConfiguration { state.withLock { $0.configuration } }

    /// Makes the ``JWKSRefresher`` check for due fetches.
    func findWork() { wake.yield() }

    package struct KeyReport: Sendable {
        /// URLs, without their queries, whose keys have never been fetched.
        package var missing: [String] = []
        /// URLs, without their queries, that publish no usable key.
        ///
        /// The issuer has withdrawn all of them.
        package var empty: [String] = []
        /// Whether no key is available at all, so that no token can be verified.
        package var isWithoutKeys = false
        /// Providers that keys are fetched from.
        package var providers = 0
        /// The time of the oldest fetched key set; nil if all are missing, or none exist.
        package var oldest: Timestamp?
        /// Numbers of fetches by result: `changed`, `unchanged`, `failed`.
        package var refreshes: [(outcome: String, count: Int)] = []
    }

    /// The state of fetched keys, for health and metrics.
    package var keyReport: KeyReport {
        let (remotes, entries, refreshes) = state.withLock {
            (Array($0.remotes.values), $0.table.entries, $0.refreshes)
        }
        var report = KeyReport()
        report.providers = remotes.count
        report.missing = remotes.filter { $0.keys == nil }.map { KeySetURL.shown($0.url) }.sorted()
        report.empty = remotes.filter { $0.keys?.isEmpty == true }.map { KeySetURL.shown($0.url) }.sorted()
        report.isWithoutKeys = entries.allSatisfy(\.keys.keys.isEmpty)
        report.oldest = remotes.compactMap(\.freshAt).min()
        report.refreshes = JWKSCacheState.Outcome.allCases.map { ($0.rawValue, refreshes[$0] ?? 0) }
        return report
    }
}
