package import SyncModel

/// How far a command's act was completed, for the audit log.
package enum ActResult {
    case whole
    /// All was done but that many things, which the command named; it ends with 1.
    case partial(left: Int)
    /// Nothing was done.
    case failed(ProblemCode)

    package static func leaving(_ count: Int) -> ActResult { count == 0 ? .whole : .partial(left: count) }

    func note(in outcome: inout AuditOutcome) {
        switch self {
        case .whole: outcome.note("status", "ok" as StaticString)
        case .partial(let left):
            outcome.note("status", "partial" as StaticString)
            outcome.note("left", Int64(left))
        case .failed(let code):
            outcome.note("status", "failed" as StaticString)
            outcome.note("code", code.rawValue)
        }
    }
}
