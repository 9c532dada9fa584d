package import FoundationEssentials
import JSONText
import Metrics
import Postgres
package import SyncModel
import Synchronization

/// The table of operator actions.
///
/// The row of an action is written before the action, and the outcome is written after the action. Therefore the row
/// exists even if the gateway ends during the action.
package struct AuditLog: Sendable {
    /// The maximum number of rows that one page reads.
    ///
    /// With filters, a page that is not the last can have fewer actions than requested.
    static let window: Int64 = 2_000

    let pool: Pool
    let now: TimeSource
    let failure: StoreFailure
    private let ids = AuditIDs()
    private let unfinished = Counter(label: StoreMetrics.unfinishedActs)

    init(pool: Pool, now: @escaping TimeSource, failure: StoreFailure) {
        self.pool = pool
        self.now = now
        self.failure = failure
    }

    /// Identifies the row of an action.
    package struct Mark: Sendable {
        let organization: UUID
        let id: UUID
    }

    /// Records that an action begins.
    ///
    /// - Throws: `store_unavailable` or `overloaded` for any failure of the database. In that case the caller must not
    ///   perform the action.
    package func begin(_ act: AuditedAction) async throws(Problem) -> Mark {
        try await write(act, nil)
    }

    /// Records a read access, together with its outcome.
    package func record(_ act: AuditedAction, _ outcome: AuditOutcome) async throws(Problem) {
        _ = try await write(act, outcome)
    }

    /// Records the outcome of an action.
    ///
    /// If the outcome cannot be written, the action is not undone, and the failure is logged.
    package func end(_ mark: Mark, _ outcome: AuditOutcome) async {
        // the outcome is recorded even if the caller has disconnected
        let written = await Task {
            try await pool.run([
                AuditStatements.end(
                    organization: mark.organization,
                    id: mark.id,
                    outcome: PostgresJSON(outcome.json),
                    user: outcome.user,
                    into: outcome.into,
                    reason: outcome.reason
                )
            ])
        }.result
        guard case .failure(let error) = written else { return }
        unfinished.increment()
        _ = failure.problem(error, doing: "write an act's outcome")
    }

    private func write(_ act: AuditedAction, _ outcome: AuditOutcome?) async throws(Problem) -> Mark {
        let moment = now()
        let mark = Mark(organization: act.organization, id: ids.make(at: moment))
        do {
            _ = try await pool.run([
                AuditStatements.begin(
                    organization: mark.organization,
                    id: mark.id,
                    now: moment,
                    actor: act.actor,
                    scope: act.scope.rawValue,
                    action: act.action,
                    reason: act.reason,
                    target: PostgresJSON(act.targetJSON),
                    user: act.user ?? outcome?.user,
                    into: act.into ?? outcome?.into,
                    request: act.requestID,
                    outcome: PostgresJSON(outcome?.json)
                )
            ])
            return mark
        } catch {
            let problem = failure.problem(error, doing: "write an act")
            // a read-only database or a missing permission would be an internal error, but an operator can fix the
            // cause, and the caller can try again
            throw problem.code == .internalError ? Self.unwritable : problem
        }
    }

    private static var unwritable: Problem {
        var problem = Problem.storeUnavailable
        problem.detail = "the audit log cannot be written, so the request was not executed; try again"
        return problem
    }

    // MARK: - Reading

    /// Returns a page of actions, the newest first.
    ///
    /// - Parameter limit: 1 to 1,000.
    package func page(_ filter: AuditFilter, limit: Int, after cursor: UUID?) async throws(Problem) -> AuditPage {
        var parameters = filter.organization.map { Parameters(of: $0) } ?? Parameters()
        parameters.add(filter.since.map(UUIDv7Generator.least) ?? .least)
        parameters.add(min(cursor ?? .greatest, filter.until.map(UUIDv7Generator.least) ?? .greatest))
        parameters.add(Self.window)
        parameters.add(filter.actor)
        parameters.add(filter.action)
        parameters.add(limit)
        let statement = filter.organization == nil ? AuditStatements.pageOfAll : AuditStatements.page
        do {
            let rows = try await pool.transaction { connection in
                try await connection.runByIndex(Query(statement, parameters))
            }
            return try AuditPage(rows, limit: limit, window: Int(Self.window))
        } catch {
            throw failure.problem(error, doing: "read the audit")
        }
    }
}

extension AuditedAction {
    fileprivate var targetJSON: [UInt8] {
        JSONWriter.object(capacity: 128) { writer in
            for (name, value) in target {
                writer.name(name)
                writer.string(value)
            }
        }
    }
}

/// A generator of ids for actions, in ascending order.
///
/// The audit log is read in the order of ids. Therefore ids of the same millisecond must ascend, too.
final class AuditIDs: Sendable {
    private let generator = UUIDv7Generator()
    private let last = Mutex(UUID.least)

    func make(at now: Timestamp) -> UUID {
        let id = generator.make(at: now)
        return last.withLock { last in
            // within a millisecond, ids continue after the last id; if the clock was set back, ids begin at the new
            // time
            let isLess = id <= last && UUIDv7Generator.least(at: now) <= last && last < Self.next(now)
            last = isLess ? last.successor ?? id : id
            return last
        }
    }

    private static func next(_ now: Timestamp) -> UUID { UUIDv7Generator.least(at: now.adding(seconds: 0.001)) }
}

extension Store {
    /// The log of operator actions.
    package var audit: AuditLog { AuditLog(pool: pool, now: now, failure: failure) }

    /// The console sessions that operators ended. The caller must keep the value, because it contains a cache.
    package var endedSessions: EndedSessions { EndedSessions(pool: pool, now: now, failure: failure) }
}
