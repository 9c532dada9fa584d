import Postgres
import Spans

extension Spans {
    /// Starts the span of a group's commit, if a job of the group is recorded.
    ///
    /// The span is in the trace of the first recorded job. It is linked to all recorded jobs, and these to it, because
    /// a span has only one parent.
    static func commit(_ group: [some GroupJob], of noun: String) -> GatewaySpan? {
        guard isOn else { return nil }
        let jobs = group.compactMap(\.span)
        guard let span = child("commit \(noun)", .client, of: jobs.first?.context) else { return nil }
        for job in jobs {
            span.link(to: job.context)
            job.link(to: span.context)
        }
        span.set(.database, "postgresql")
        span.set(.databaseOperation, "COMMIT")
        // one operation is no batch (OpenTelemetry, Database spans)
        if group.count > 1 { span.set(.batchSize, group.count) }
        span.set(.mutations, group.reduce(0) { $0 + $1.weight })
        return span
    }
}

extension GatewaySpan {
    /// Ends the span of a commit.
    func end(traffic: Traffic) {
        set(.statements, traffic.statements)
        set(.roundTrips, traffic.roundTrips)
        end()
    }
}
