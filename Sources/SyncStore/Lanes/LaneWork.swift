import Foundation
import JSONText
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
        var steps = LaneGroup(group, entries: entries, leaseSeconds: leaseSeconds, now: moment)
        try steps.readLocked(await connection.run(steps.lockQueries))
        let lost = steps.lostQueries
        if !lost.isEmpty { try steps.readLost(await connection.run(lost)) }
        steps.settle { [ids] in ids.make(at: moment) }
        let settling = steps.settleQueries
        if !settling.isEmpty { try steps.readNext(await connection.run(settling)) }
        if steps.lacksTypes { throw Setback.stale }
        steps.choose()
        _ = try await connection.run(steps.finalQueries)
        for note in steps.notes {
            logger.error(
                "lane was inconsistent",
                metadata: [
                    "organization": "\(note.lane.organization.lowercased)", "user": "\(note.lane.user.lowercased)",
                    "reason": "\(note.text)",
                ]
            )
        }
        finish(group, steps)
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
