import HTTPTypes
import JSONText
import Logging
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/retention`: a forecast, retention's state, and an immediate run.
struct RetentionEndpoints: Sendable {
    /// The time limit for counting due rows. When it is reached, the response has the counts so far.
    private static let timeout: Duration = .seconds(2)

    let store: Store
    let policy: RetentionPolicy
    let now: TimeSource
    let logger: Logger

    /// Responds with the state of retention, and a preview of its next run.
    func forecast(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let deadline = ContinuousClock.now + Self.timeout
        let run = RetentionRun(
            store: store.retention,
            cutoffs: policy.cutoffs(at: now()),
            lease: nil,
            logger: logger,
            shouldStop: { Task.isCancelled || .now >= deadline }
        )
        let due = try await BlockingWork.run { await run.run { 5_000 } }
        if case .failed(let problem) = due.ending { throw problem }
        let status = try await store.retentionStatus()
        return Answer(
            .ok,
            json: json(status) { writer in
                writer.name("due")
                due.report.write(to: &writer)
                writer.member("due_is_complete", due.isComplete && due.isFinished)
            }
        )
    }

    /// Requests a run; the first free replica starts it.
    func runNow(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        try await store.retention.requestRun()
        return Answer(.accepted, json: json(try await store.retentionStatus()) { _ in })
    }

    private func json(_ status: RetentionStatus, _ more: (inout JSONWriter) -> Void) -> [UInt8] {
        JSONWriter.object { writer in
            writer.member("payload_seconds", Int64(policy.payloadDays * 86_400))
            writer.member("record_seconds", Int64(policy.days * 86_400))
            writer.member("audit_seconds", Int64(policy.auditDays * 86_400))
            writer.member("running_since", status.runningSince?.rfc3339)
            writer.member("next_run_at", (status.dueAt ?? now()).rfc3339)
            writer.member("last_run_at", status.finishedAt?.rfc3339)
            writer.member("last_run", raw: status.lastReport)
            more(&writer)
        }
    }
}
