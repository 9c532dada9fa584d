import HTTPTypes
import Logging
import SyncModel
import Telemetry

/// A request's log line, in addition to the ids that all of its lines have: its route's template and never its path.
struct LogLine {
    let route: Route?
    let answer: Answer
    /// Nanoseconds.
    let elapsed: Int64

    func metadata(failure: (any Error)?) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKeys.method: .string(route?.method.rawValue ?? "any"),
            LogKeys.route: .string(route?.meters.route ?? "unmatched"),
            LogKeys.status: .stringConvertible(answer.status.code),
            LogKeys.durationMS: .stringConvertible(Double(elapsed / 1_000) / 1_000),
        ]
        if let failure {
            let refusal = Refusal(of: failure)
            metadata[LogKeys.code] = .string(refusal.problem.code.rawValue)
            // a problem's detail may repeat what the client wrote; only unexpected errors are shown in full
            if refusal.problem.code == .internalError {
                metadata[LogKeys.error] = .string(String(reflecting: refusal.cause ?? failure))
            }
        }
        return metadata
    }
}
