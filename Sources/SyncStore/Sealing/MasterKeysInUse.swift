import SyncModel

/// The master keys that wrap stored data keys, compared with the configured ones.
package struct MasterKeysInUse: Sendable {
    typealias Count = (label: String, count: Int64)

    private let known: [Count]
    let unknown: [Count]

    init(counts: [Count], _ masterKeys: MasterKeys?) {
        known = counts.filter { masterKeys?[$0.label] != nil }
        unknown = counts.filter { masterKeys?[$0.label] == nil }
    }

    /// Data keys that can be unwrapped here.
    ///
    /// Of users' keys up to ``MasterKeyCheck/counted`` of each master key.
    package var openable: Int64 { known.reduce(0) { $0 + $1.count } }

    /// Whether any data key can be unwrapped; also true without data keys.
    package var isAnyKnown: Bool { unknown.isEmpty || !known.isEmpty }

    /// Texts that name the missing master keys; empty if all are configured.
    package var missing: [String] {
        unknown.map { "\($0.count) data keys are wrapped by master key \($0.label), which is not configured" }
    }
}
