import Metrics
package import SyncModel

/// Metrics of the sources of all organizations.
package struct SourceMetrics: Sendable {
    /// The name of the counter of workers' runs and of requests to receivers, by `kind` and `outcome`.
    package static let runs = "sluice_source_runs_total"
    /// The name of the counter of events, by `kind` and `result`. The result `ignored` counts items that no rule
    /// matches.
    package static let events = "sluice_source_events_total"

    /// The name of the counter of batches that the feed did not accept immediately, by `kind` and `reason`.
    package static let retries = "sluice_source_retries_total"

    /// The reason why a batch of events is retried.
    package enum Retry: String, Sendable, Hashable, CaseIterable {
        /// The batch was too large for one transaction. Its halves are submitted separately.
        case tooLarge = "too_large"
        /// The database is unavailable or overloaded, or refused the batch.
        case unavailable
        /// Too many events are parked.
        case parked
    }

    package enum Outcome: String, Sendable, Hashable, CaseIterable {
        case succeeded
        case failed
        /// A worker lost its lease. The result of its work was discarded.
        case lost
        /// A message's signature was invalid, or no source has the name.
        case unauthorized
    }

    private let runs: [SourceKind: [Outcome: Counter]]
    private let results: [SourceKind: [IngestResult: Counter]]
    private let ignored: [SourceKind: Counter]
    private let retried: [SourceKind: [Retry: Counter]]

    package init() {
        runs = Self.counters(Self.runs, "outcome", of: Outcome.allCases)
        results = Self.counters(Self.events, "result", of: IngestResult.allCases)
        retried = Self.counters(Self.retries, "reason", of: Retry.allCases)
        ignored = Dictionary(
            uniqueKeysWithValues: SourceKind.allCases.map { kind in
                (kind, Counter(label: Self.events, dimensions: [("kind", kind.rawValue), ("result", "ignored")]))
            }
        )
    }

    private static func counters<Value: Hashable & RawRepresentable<String>>(
        _ label: String,
        _ dimension: String,
        of values: [Value]
    ) -> [SourceKind: [Value: Counter]] {
        let counters = SourceKind.allCases.map { kind in
            let ofKind = values.map { value in
                (value, Counter(label: label, dimensions: [("kind", kind.rawValue), (dimension, value.rawValue)]))
            }
            return (kind, Dictionary(uniqueKeysWithValues: ofKind))
        }
        return Dictionary(uniqueKeysWithValues: counters)
    }

    package func run(_ kind: SourceKind, _ outcome: Outcome) { runs[kind]?[outcome]?.increment() }

    package func retry(_ kind: SourceKind, _ reason: Retry) { retried[kind]?[reason]?.increment() }

    package func events(_ kind: SourceKind, _ verdicts: [IngestVerdict], ignored: Int = 0) {
        for verdict in verdicts { results[kind]?[verdict.result]?.increment() }
        if ignored > 0 { self.ignored[kind]?.increment(by: Int64(ignored)) }
    }
}
