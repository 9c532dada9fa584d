import Foundation
import Logging
import Postgres
import SyncModel

/// Commits groups of lane steps. One group is three round trips: lock lanes and entities; write what came of requests,
/// release what waited for them and read what comes next; mark that as in flight and commit.
struct LaneWork: GroupWork {
    let what: StaticString = "run lanes"
    let catalog: Catalog
    let wakeUps: WakeUps
    let leaseSeconds: Double
    let now: TimeSource
    let logger: Logger
    private let ids = UUIDv7Generator()

    init(
        catalog: Catalog,
        wakeUps: WakeUps,
        leaseSeconds: Double,
        now: @escaping TimeSource,
        logger: Logger
    ) {
        self.catalog = catalog
        self.wakeUps = wakeUps
        self.leaseSeconds = leaseSeconds
        self.now = now
        self.logger = logger
    }

    func commit(_ group: [LaneJob], on connection: Connection, isCertain: Bool) async throws {
        let moment = now()
        var entries: [UUID: Catalog.Entry] = [:]
        for id in Set(group.map(\.lane.organization)) { entries[id] = try await catalog.entry(id) }
        let locked = group.filter { entries[$0.lane.organization]?.seal.lock != nil }
        if !locked.isEmpty { try await leaveAlone(locked, moment, on: connection) }
        let group = locked.isEmpty ? group : group.filter { entries[$0.lane.organization]?.seal.lock == nil }
        guard !group.isEmpty else { return }
        var steps = LaneGroup(group, entries: entries, leaseSeconds: leaseSeconds, now: moment)
        try steps.readLocked(await connection.run(steps.lockQueries))
        let lost = steps.lostQueries
        if !lost.isEmpty { try steps.readLost(await connection.run(lost)) }
        steps.settle { [ids] in ids.make(at: moment) }
        let settling = try steps.settleQueries
        if !settling.isEmpty { try steps.readNext(await connection.run(settling)) }
        if steps.lacksTypes || steps.lacksKeys { throw Setback.stale }
        steps.choose()
        _ = try await connection.run(try steps.finalQueries)
        for reason in steps.sealed {
            logger.error("lane waits: its head cannot be opened", metadata: ["reason": "\(reason)"])
        }
        for note in steps.notes { logger.error("lane was inconsistent", metadata: ["reason": "\(note)"]) }
        finish(group, steps)
    }

    /// Lanes of organizations whose data cannot be opened are put off, not claimed: nothing of theirs is sent, counted or
    /// given up. What was in flight stays so until its lease has run out.
    private func leaveAlone(_ jobs: [LaneJob], _ moment: Timestamp, on connection: Connection) async throws {
        let until = moment.adding(seconds: LaneGroup.pause)
        let claims = jobs.filter { $0.step.token == nil }.sorted { $0.lane < $1.lane }
        if !claims.isEmpty {
            let moments = claims.map { (lane: $0.lane, until: until) }
            _ = try await connection.run(LaneStore.postpone(moments, now: moment))
        }
        for job in jobs {
            if job.step.token == nil {
                job.reply.send(.success(.released(readyAt: until)))
            } else {
                job.refuse(StoreFailure.sealed)
            }
        }
    }

    func isStale(_ error: PostgresError) -> Bool { false }

    func forget(_ group: [LaneJob]) {
        for job in group { catalog.invalidate(job.lane.organization) }
    }

    private func finish(_ group: [LaneJob], _ steps: LaneGroup) {
        for (job, turn) in zip(group, steps.turns) { job.reply.send(.success(turn)) }
        wakeUps.changed(steps.changedLanes)
    }
}
