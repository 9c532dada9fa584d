import Metrics
import SyncModel

/// Operations' metrics, described where they are wired.
package struct OperationMetrics: Sendable {
    /// Mutations that operations processed here, by `kind` and `result`.
    package static let mutations = "sluice_operation_mutations_total"
    /// Operations that ended here, by `kind` and `state`.
    package static let ended = "sluice_operations_ended_total"

    private let mutations: [OperationKind: [String: Counter]]
    private let ends: [OperationKind: [OperationState: Counter]]

    init() {
        let kinds = OperationKind.allCases
        mutations = Dictionary(
            uniqueKeysWithValues: kinds.map { kind in
                let counters = ["done", "skipped", "failed"].map { result in
                    (result, Counter(label: Self.mutations, dimensions: [("kind", kind.rawValue), ("result", result)]))
                }
                return (kind, Dictionary(uniqueKeysWithValues: counters))
            }
        )
        ends = Dictionary(
            uniqueKeysWithValues: kinds.map { kind in
                let counters = [OperationState.done, .failed].map { state in
                    (
                        state,
                        Counter(label: Self.ended, dimensions: [("kind", kind.rawValue), ("state", state.rawValue)])
                    )
                }
                return (kind, Dictionary(uniqueKeysWithValues: counters))
            }
        )
    }

    func count(_ kind: OperationKind, _ tally: OperationTally) {
        mutations[kind]?["done"]?.increment(by: tally.done)
        mutations[kind]?["skipped"]?.increment(by: tally.skipped)
        mutations[kind]?["failed"]?.increment(by: tally.failed)
    }

    func ended(_ kind: OperationKind, _ state: OperationState) { ends[kind]?[state]?.increment() }
}
