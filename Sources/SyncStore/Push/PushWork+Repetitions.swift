import Foundation
import Postgres
import SyncModel

/// Pushes that only repeat others, as devices send that missed the answer.
extension PushWork {
    /// Answers them from one reading transaction: one round trip, no locks, no flush.
    ///
    /// The first try of a repetition is known to be committed, because the device's watermark is cached from there. The
    /// cache only chooses the way: a push is answered here if each of its entries is found and none is refused.
    ///
    /// - Returns: the pushes to plan under locks: all others.
    func answerRepetitions(
        _ batch: PushBatch,
        _ seals: SealTable,
        at moment: Timestamp,
        on connection: Connection
    ) async throws -> PushBatch {
        let places = batch.inputs.indices.filter { seemsRepeated(batch.inputs[$0]) }
        if places.isEmpty { return batch }
        let repeating = batch[places]
        let reader = GroupReader(repeating: repeating.inputs, seals: seals)
        let feeds = Query(GroupStatements.readFeeds, Parameters(Set(repeating.jobs.map(\.organization.id)).sorted()))
        let results = try await connection.run(reader.queries + [feeds, .rollback])
        var ends: [UUID: FeedCursor] = [:]
        for feed in try results[results.count - 2].read(FeedCursor.end) { ends[feed.organization] = feed.end }
        let snapshot = try reader.snapshot(results)
        var left = Set(batch.jobs.indices)
        for (index, place) in places.enumerated() {
            guard let plan = repetition(repeating, index, snapshot, at: moment) else { continue }
            let job = repeating.jobs[index]
            answer(job, plan, lane: snapshot.pushes[index].lane, feed: ends[job.organization.id])
            left.remove(place)
        }
        return batch[left.sorted()]
    }

    private func seemsRepeated(_ input: PushInput) -> Bool {
        guard input.localIDs.named.isEmpty, let watermark = hints[input.device] else { return false }
        return input.push.entries.allSatisfy { $0.sequenceNumber.map { $0 <= watermark } ?? false }
    }

    /// The plan of a push that changes nothing.
    ///
    /// Nil where more has to be read, or written.
    private func repetition(
        _ batch: PushBatch,
        _ index: Int,
        _ snapshot: GroupSnapshot,
        at moment: Timestamp
    ) -> PushPlan? {
        var push = snapshot.pushes[index]
        let compared = push.idsToCompare(batch.jobs[index].push)
        guard snapshot.hasLane[index], compared.isEmpty, push.uncompared.isEmpty, !push.shouldRecordLastSeen(at: moment)
        else {
            return nil
        }
        var entities = EntityTable()
        let plan = try? PushPlanner.plan(
            batch.jobs[index].push,
            snapshot: push,
            context: batch.contexts[index],
            entities: &entities
        )
        guard let plan, !plan.changesAnything(from: push), plan.verdicts.allSatisfy(\.isReplayed) else { return nil }
        return plan
    }
}
