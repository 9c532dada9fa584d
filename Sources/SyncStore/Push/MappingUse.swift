import SyncModel

/// A mapping that a push names.
package struct MappingUse {
    /// A use is recorded once a day (``GroupStatements/touchMappings``).
    package static let precision: Double = 86_400

    let push: Int
    let name: ClientReference
    /// Nil if never.
    let notedAt: Timestamp?

    /// Whether to record its use again.
    func isChange(at now: Timestamp) -> Bool {
        guard let notedAt else { return true }
        return notedAt.adding(seconds: Self.precision) <= now
    }
}
