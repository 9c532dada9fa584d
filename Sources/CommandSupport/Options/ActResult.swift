package import SyncModel

/// How far a command's act was completed, for the audit log.
package enum ActResult {
    case whole
    /// All was done but that many things, which the command named; it ends with 1.
    case partial(left: Int)
    /// Nothing was done.
    case failed(ProblemCode)

    package static func leaving(_ count: Int) -> ActResult { count == 0 ? .whole : .partial(left: count) }

    func record(in outcome: inout AuditOutcome) {
        switch self {
        case .whole: outcome.record("status", "ok" as StaticString)
        case .partial(let left):
            outcome.record("status", "partial" as StaticString)
            outcome.record("left", Int64(left))
        case .failed(let code):
            outcome.record("status", "failed" as StaticString)
            outcome.record("code", code.rawValue)
        }
    }
}
