package import FoundationEssentials
import Logging
import Postgres
package import SyncModel
import SyncStore

/// The database operations of retention: small steps, each a transaction under the locks of its lanes.
///
/// Only the replica that holds the lease works, and every step renews the lease. If this replica is killed, its lease
/// expires after a minute.
package struct RetentionStore: Sendable {
    /// The time after which a lease that is not renewed expires, in seconds.
    package static let leaseSeconds = RetentionStatus.leaseSeconds
    /// The maximum number of organizations that one statement reads.
    static let organizationsAtATime = 500
    /// The time for which a step waits for the lock of a lane, in milliseconds. During the wait, the step holds the
    /// locks of its other lanes, and delays callers that need those lanes.
    static let lockTimeout = 300

    /// The tables whose rows are deleted by age alone.
    let aged: [AgedTable]
    let pool: Pool
    let settling: Settlement
    let now: TimeSource
    let failure: StoreFailure
    let requested: CoalescedSignal

    /// The tasks of each organization, in this order.
    var tasks: [RetentionTask] {
        RetentionKind.allCases.flatMap { kind in
            [RetentionTask(kind)] + aged.filter { $0.kind == kind }.map { RetentionTask(kind, of: $0.name) }
        }
    }

    // MARK: - The lease

    /// Claims the lease; returns nil while another replica has it, or if no run is due.
    ///
    /// - Parameter interval: seconds from the end of a run to the next run; nil if a run is always due.
    package func claim(owner: UUID, interval: Double?) async throws(Problem) -> RetentionLease? {
        let query = RetentionStatements.claim(
            owner: owner,
            now: now(),
            expires_at: now().adding(seconds: Self.leaseSeconds),
            is_due: interval == nil,
            latest_expiry: RetentionStatus.latestExpiry(at: now()),
            latest_due: RetentionStatus.latestDue(at: now(), interval: interval ?? 0)
        )
        return try await failure.reporting("claim retention's turn") {
            try await pool.run([query])[0].read { RetentionLease(owner: owner, token: try $0.read("token")) }.first
        }
    }

    /// Releases the lease.
    ///
    /// - Parameters:
    ///   - report: the counts of rows of a finished run; nil for an interrupted run.
    ///   - due: the time of the next run.
    /// - Returns: the recorded end of the run.
    @discardableResult
    package func release(
        _ lease: RetentionLease,
        report: RetentionReport?,
        due: Timestamp
    ) async throws(Problem) -> Timestamp {
        let moment = now()
        let query = RetentionStatements.release(
            owner: lease.owner,
            token: lease.token,
            finished_at: report == nil ? nil : moment,
            report: PostgresJSON(report?.json),
            due_at: due
        )
        return try await failure.reporting("release retention's lease") {
            _ = try await pool.run([query])
            return moment
        }
    }

    /// Requests an immediate run, on any replica.
    package func requestRun() async throws(Problem) {
        let query = RetentionStatements.requestRun(now: now())
        try await failure.reporting("request a run of retention") {
            _ = try await pool.run([query])
        }
        requested.send()
    }

    /// Emits a value for each run requested in this process. Supports one reader.
    package var requests: AsyncStream<Void> { requested.signals }

    // MARK: - Steps

    /// Returns a page of organizations in the order of their ids, each with its overdue rows. After the last
    /// organization, the page is empty.
    package func debts(after organization: UUID?, _ cutoffs: RetentionCutoffs) async throws(Problem) -> [OverdueRows] {
        let query = RetentionStatements.debts(aged)(
            after: organization,
            limit: Self.organizationsAtATime,
            now: cutoffs.now
        )
        return try await failure.reporting("read retention's pending work") {
            let rows = try await pool.transaction { connection in
                try await connection.run([Self.opening, query])[1]
            }
            return try rows.read { try OverdueRows(&$0, aged, cutoffs) }
        }
    }

    /// Reads a page of an organization's rows, and deletes the rows that are due.
    ///
    /// - Parameters:
    ///   - place: the end of the previous step; nil for the oldest row.
    ///   - limit: the maximum number of rows of the page.
    ///   - lease: nil for a preview, which changes nothing. In a preview, `changed` is the number of rows that would be
    ///     changed.
    /// - Returns: the step's result; nil if the lease was lost.
    /// - Throws: `overloaded` if lanes stay locked, `store_unavailable`.
    package func step(
        _ task: RetentionTask,
        of organization: UUID,
        after place: RetentionPosition?,
        limit: Int,
        _ cutoffs: RetentionCutoffs,
        lease: RetentionLease?
    ) async throws(Problem) -> RetentionStep? {
        do {
            let retention: any Retention
            switch task.kind {
            case _ where task.table != nil:
                guard let table = aged.first(where: { $0.name == task.table }) else { return RetentionStep() }
                retention = table.retention(of: organization, cutoffs)
            case .unsettled: return try await expire(organization, place, limit, cutoffs, lease)
            case .deliveries:
                let deliveries = DeliveryRetention(organization: organization, cutoffs: cutoffs)
                return try await step(deliveries, place, limit, lease)
            case .audit: return try await step(AuditRetention(cutoffs: cutoffs), place, limit, lease)
            case .records: retention = AgedRetention.records(of: organization, cutoffs)
            case .payloads: retention = AgedRetention.payloads(of: organization, cutoffs)
            // all rows of this kind are in tables that are deleted by age
            case .rejections: return RetentionStep()
            case .tombstones: retention = TombstoneRetention(organization: organization, cutoffs: cutoffs)
            case .channels:
                let channels = ChannelRetention(organization: organization, cutoffs: cutoffs)
                return try await step(channels, place, limit, lease)
            case .mappings: retention = MappingRetention(organization: organization, cutoffs: cutoffs)
            }
            return try await step(retention, organization, place, limit, lease)
        } catch is LeaseLost {
            return nil
        } catch {
            throw failure.problem(error, doing: "run retention")
        }
    }

    private struct LeaseLost: Error {}

    private func step<Kind: Retention>(
        _ retention: Kind,
        _ organization: UUID,
        _ place: RetentionPosition?,
        _ limit: Int,
        _ lease: RetentionLease?
    ) async throws -> RetentionStep {
        // there is only one attempt, because the caller repeats a step that cannot lock a lane
        try await pool.transaction(attempts: 1) { connection in
            let found = try await begin(lease, retention.page(after: place, limit: limit), on: connection)
            let rows = try found.read(retention.row)
            let due = rows.filter(\.isDue)
            // only the last page has fewer rows than the limit; a page of mappings may exceed the limit, because it has
            // all mappings of a client id
            let next = rows.count < limit ? nil : rows.last?.place
            guard lease != nil else { return RetentionStep(scanned: rows.count, changed: due.count, next: next) }
            var changed = 0
            if !due.isEmpty {
                let users = try await retention.others(excluding: due, on: connection).union(due.map(\.user))
                let keys = users.map { LaneKey(organization: organization, user: $0) }
                let lanes = try await connection.run(LaneRows.lock(keys))
                changed = try await retention.drop(due, lanes: try LaneRows.lanes(lanes), on: connection)
            }
            if let note = retention.record(next) { _ = try await connection.run(note) }
            return RetentionStep(scanned: rows.count, changed: changed, next: next)
        }
    }

    private func step(
        _ deliveries: DeliveryRetention,
        _ place: RetentionPosition?,
        _ limit: Int,
        _ lease: RetentionLease?
    ) async throws -> RetentionStep {
        try await pool.transaction(attempts: 1) { connection in
            let found = try await begin(lease, deliveries.page(after: place, limit: limit), on: connection)
            let rows = try found.read(DeliveryRetention.Row.init)
            let next = rows.count < limit ? nil : rows.last?.place
            guard lease != nil, !rows.isEmpty else {
                return RetentionStep(scanned: rows.count, changed: rows.count, next: next)
            }
            let changed = try await connection.run(deliveries.drop(rows)).affected
            return RetentionStep(scanned: rows.count, changed: changed, next: next)
        }
    }

    private func step(
        _ audit: AuditRetention,
        _ place: RetentionPosition?,
        _ limit: Int,
        _ lease: RetentionLease?
    ) async throws -> RetentionStep {
        try await pool.transaction(attempts: 1) { connection in
            let found = try await begin(lease, audit.page(after: place, limit: limit), on: connection)
            let rows = try found.read(AuditRetention.Row.init)
            let next = rows.count < limit ? nil : rows.last?.place
            guard lease != nil, !rows.isEmpty else {
                return RetentionStep(scanned: rows.count, changed: rows.count, next: next)
            }
            let changed = try await connection.run(audit.drop(rows)).affected
            return RetentionStep(scanned: rows.count, changed: changed, next: next)
        }
    }

    private func step(
        _ channels: ChannelRetention,
        _ place: RetentionPosition?,
        _ limit: Int,
        _ lease: RetentionLease?
    ) async throws -> RetentionStep {
        try await pool.transaction(attempts: 1) { connection in
            let found = try await begin(lease, channels.readNotes, on: connection)
            let notes = try channels.notes(in: found)
            guard lease != nil else { return try await channels.preview(notes, on: connection) }
            return try await channels.step(notes, after: place, limit: limit, on: connection)
        }
    }

    /// Each lane has a separate transaction, because a discard applies the rules of settling. There are few such lanes.
    private func expire(
        _ organization: UUID,
        _ place: RetentionPosition?,
        _ limit: Int,
        _ cutoffs: RetentionCutoffs,
        _ lease: RetentionLease?
    ) async throws -> RetentionStep {
        let failing = ExpiredFailures(organization: organization, cutoffs: cutoffs)
        let page = try await failing.page(after: place, limit: limit, pool: pool)
        var step = RetentionStep(scanned: page.scanned, next: page.next)
        for (user, ids) in page.lanes {
            guard let lease else {
                step.changed += ids.count
                continue
            }
            if try await pool.run([renewal(lease)])[0].affected == 0 { throw LeaseLost() }
            let lane = LaneKey(organization: organization, user: user)
            do throws(Problem) {
                step.changed += try await settling.expire(ids, before: cutoffs.everything, lane)
            } catch {
                // a lane that cannot be decrypted or stays locked must not stop the other lanes; the failure is logged
                step.left += ids.count
            }
        }
        return step
    }

    /// Begins the transaction of a step with a query.
    ///
    /// - Returns: the query's rows.
    private func begin(_ lease: RetentionLease?, _ query: Query, on connection: Connection) async throws -> Rows {
        let opening = [Self.opening] + (lease.map { [renewal($0)] } ?? [])
        let results = try await connection.run(opening + [query])
        if lease != nil, results[1].affected == 0 { throw LeaseLost() }
        return results[opening.count]
    }

    private func renewal(_ lease: RetentionLease) -> Query {
        RetentionStatements.renew(
            owner: lease.owner,
            token: lease.token,
            expires_at: now().adding(seconds: Self.leaseSeconds)
        )
    }

    static var opening: Query { RetentionStatements.opening(lock_timeout: "\(lockTimeout)ms") }
}
