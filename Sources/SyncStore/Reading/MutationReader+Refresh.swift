package import Foundation
package import Postgres
package import SyncModel

extension MutationReader {
    /// Waits until every mutation of an answer is settled or the time is over.
    ///
    /// Then updates the answer.
    package func refresh(
        _ answer: PushAnswer,
        organization: Organization,
        user: UUID,
        wait: Duration
    ) async throws(Problem) -> PushAnswer {
        let deadline = ContinuousClock.now + wait
        let lane = LaneKey(organization: organization.id, user: user)
        return try await notifier.watching(lane: lane) { watch throws(Problem) in
            var answer = answer
            // a lane that was not held before may be held now, also because of this push's own outcome
            let readsHold = answer.blocker != nil || !answer.unsettled.isEmpty
            while !answer.unsettled.isEmpty {
                let latest = try await records(answer.unsettled, lane)
                answer.verdicts = answer.verdicts.map { $0.updated(latest) }
                answer.stuck = await stuckMutations.stuck(
                    among: answer.verdicts,
                    organization: organization.id,
                    user: user
                )
                if answer.unsettled.isEmpty || .now >= deadline { break }
                try await pause(watch, until: deadline)
            }
            if readsHold {
                answer.blocker = await LaneBlockerReader(pool: pool, now: now).blocker(of: lane)
            }
            return try await withMappings(answer, lane)
        }
    }

    private func records(_ ids: [UUID], _ lane: LaneKey) async throws(Problem) -> [UUID: MutationRecord] {
        let bytes = Int64(WorkBounds.answer)
        let parameters = Parameters(of: lane, Array(Set(ids)), bytes, bytes)
        do {
            return try await catalog.opening(lane.organization) { [parameters] seal in
                let rows = try await pool.run([Query(Self.recordsStatement, parameters)])[0]
                var records: [UUID: MutationRecord] = [:]
                for var row in rows {
                    let record = try RecordColumns.boundedRecord(&row, LaneSeal(seal: seal, user: lane.user))
                    records[record.id] = record
                }
                return records
            }
        } catch {
            throw failure.problem(error, doing: "read mutations")
        }
    }

    /// Adds the mappings resolved during the wait, and the feed's current end.
    private func withMappings(_ answer: PushAnswer, _ lane: LaneKey) async throws(Problem) -> PushAnswer {
        let touched = answer.touched
        let feed = Parameters([lane.organization])
        var answer = answer
        do {
            let results = try await pool.run([
                MappingReader.statement(
                    organization: lane.organization,
                    user: lane.user,
                    client_ids: touched.clientIDs,
                    entity_type: nil as String?
                ), Query(GroupStatements.readFeeds, feed),
            ])
            let mappings = try results[0].read(MappingReader.mapping)
            // a resolved mapping stays resolved; local ids are not looked up again
            let known = Set(answer.mappings)
            answer.mappings += mappings.filter { $0.status == .resolved && touched.contains($0) && !known.contains($0) }
            if let feed = try results[1].read(FeedCursor.end).first { answer.feed = feed.end.text }
            return answer
        } catch {
            throw failure.problem(error, doing: "look up id mappings")
        }
    }

    /// Records, with the contents of as many as fit the bytes in `bytes`.
    package static let recordsStatement = Statement(
        "mutations_records",
        ["organization", "user", "ids", "bytes", "all_bytes"],
        """
        SELECT \(RecordColumns.bounded(by: ":bytes", all: ":all_bytes"))
        FROM (
            SELECT r.*, (sum(r.bytes) OVER (ORDER BY r.position))::int8 AS bytes_to, 0::int8 AS all_to
            FROM (
                SELECT x.*, \(RecordColumns.bytes) FROM mutations x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.id = ANY (:ids::uuid[])
                OFFSET 0
            ) r
        ) m
        """
    )
}

extension PushVerdict {
    /// The verdict with a newer record, where there is one.
    fileprivate func updated(_ latest: [UUID: MutationRecord]) -> PushVerdict {
        switch self {
        case .accepted(let record): .accepted(latest[record.id] ?? record)
        case .replayed(let record): .replayed(latest[record.id] ?? record)
        case .rejected, .rejectedBefore: self
        }
    }
}
