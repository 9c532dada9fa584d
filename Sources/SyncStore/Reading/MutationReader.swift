package import FoundationEssentials
package import Postgres
package import SyncModel

/// Reads the mutations of one user.
package struct MutationReader: Sendable {
    /// The minimum pause between two reads of a waiting reader.
    static let breath: Duration = .milliseconds(2)
    /// The maximum bytes of one page of a list.
    ///
    /// A page has at least one mutation.
    static let pageBytes: Int64 = 2_097_152

    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let stuckMutations: FailureSearcher
    let notifier: ChangeNotifier
    let failure: StoreFailure

    /// Returns one mutation with all its properties; nil if the user does not have it.
    ///
    /// - Parameters:
    ///   - wait: the time to wait for the mutation to be settled.
    ///   - room: the memory budget in which bytes for the row are reserved before the row is read.
    package func mutation(
        _ id: UUID,
        organization: Organization,
        user: UUID,
        wait: Duration,
        room: PagePermit = .unbounded
    ) async throws(Problem) -> MutationDetail? {
        let deadline = ContinuousClock.now + wait
        let lane = LaneKey(organization: organization.id, user: user)
        return try await notifier.watching(lane: lane) { watch throws(Problem) in
            while true {
                try await room.acquire()
                guard let found = try await details([id], organization, user).first else { return nil }
                let isOver = if .now >= deadline { true } else { await isSettled(found.record, lane) }
                if isOver { return try await completed(found, lane).seen(in: organization, at: now()) }
                room.release()
                try await pause(watch, until: deadline)
            }
        }
    }

    /// Returns a page of the user's mutations in lane order.
    ///
    /// - Throws: `invalid_request` for an invalid cursor, or for a cursor of another filter.
    package func list(
        _ filter: MutationFilter,
        organization: Organization,
        user: UUID
    ) async throws(Problem) -> MutationPage {
        let after = try MutationCursor(filter)
        let parameters = Parameters(
            of: LaneKey(organization: organization.id, user: user),
            after.position,
            filter.statuses.map(\.rawValue),
            filter.deviceID,
            filter.entityType,
            Int64(filter.limit + 1),
            Self.pageBytes
        )
        let found: [MutationDetail]
        do {
            found = try await catalog.opening(organization.id) { [parameters] seal in
                let rows = try await pool.run([Query(Self.listStatement, parameters)])[0]
                return try rows.read { try MutationDetail(&$0, user: user, seal) }
            }
        } catch {
            throw failure.problem(error, doing: "list mutations")
        }
        let page = found.prefix(filter.limit)
        let hasMore = found.last?.hasMore ?? false || found.count > filter.limit
        let next = hasMore ? page.last.map { after.next($0.record.position) } : nil
        return self.page(page, of: organization, next: next)
    }

    func page(_ found: ArraySlice<MutationDetail>, of organization: Organization, next: String?) -> MutationPage {
        let moment = now()
        return MutationPage(mutations: found.map { $0.seen(in: organization, at: moment) }, next: next)
    }

    // MARK: - Steps

    private func details(
        _ ids: [UUID],
        _ organization: Organization,
        _ user: UUID
    ) async throws(Problem) -> [MutationDetail] {
        let parameters = Parameters(of: LaneKey(organization: organization.id, user: user), ids)
        do {
            return try await catalog.opening(organization.id) { [parameters] seal in
                let rows = try await pool.run([Query(Self.byIDStatement, parameters)])[0]
                return try rows.read { try MutationDetail(&$0, user: user, seal) }
            }
        } catch {
            throw failure.problem(error, doing: "read mutations")
        }
    }

    /// Adds the current entity to an error that was stored without the entity's document.
    ///
    /// The client may have no other way to get the document.
    private func completed(_ found: MutationDetail, _ lane: LaneKey) async throws(Problem) -> MutationDetail {
        // if the mutation took effect, it has overwritten the conflicting state
        guard found.record.status != .succeeded, let error = found.record.error,
            let outline = CurrentOutline(error), !outline.isWhole
        else { return found }
        do {
            return try await catalog.opening(lane.organization) { seal in
                let query = EntityRows.find(at: [(organization: lane.organization, key: outline.key)])
                let visibility = try await catalog.entry(lane.organization).type(outline.key.type).visibility
                var entities: [UUID: EntityTable] = [:]
                try EntityRows.load(
                    await pool.run([query])[0],
                    into: &entities,
                    SealTable([lane.organization: seal])
                )
                let state = entities[lane.organization]?[outline.key]
                var held = ChannelAccess()
                if visibility == .channels, let channels = state?.channels, !channels.isEmpty {
                    let grants = try await pool.readByIndex([ChannelAccess.query(of: lane, to: channels)])[0]
                    held = try ChannelAccess(of: lane, grants)
                }
                guard let state, state.mayBeSeen(by: lane.user, visibility, held),
                    let whole = Problem.completed(error, with: state, outline.key)
                else { return found }
                return found.showing(whole)
            }
        } catch {
            throw failure.problem(error, doing: "read a conflict's entity")
        }
    }

    private func isSettled(_ record: MutationRecord, _ lane: LaneKey) async -> Bool {
        guard record.status == .blocked else { return record.status.isSettled }
        let stuck = await stuckMutations.stuck(among: [record], organization: lane.organization, user: lane.user)
        return stuck.contains(record.id)
    }

    /// Waits for a change to the lane, and then for a short pause.
    ///
    /// The pause limits the number of reads in a lane with many mutations, because each outcome is a change.
    func pause(_ watch: Watch, until deadline: ContinuousClock.Instant) async throws(Problem) {
        _ = await watch.changes(within: deadline - .now)
        do { try await Task.sleep(for: Self.breath) } catch {
            throw Problem.overloaded("the request was cancelled")
        }
    }

    // MARK: - Statements

    package static let byIDStatement = Statement(
        "mutations_by_id",
        ["organization", "user", "ids"],
        """
        SELECT \(MutationDetail.list), false AS has_more
        FROM mutations m
        WHERE m.organization_id = :organization AND m.user_id = :user AND m.id = ANY (:ids::uuid[])
        """
    )

    private static let past = RowBytes.stop(
        when: "r.place > 1 AND r.bytes_to > :bytes",
        by: "r.position",
        includesExceeding: false
    )

    /// Lists a user's mutations.
    ///
    /// The statement reads one mutation more than the page contains.
    ///
    /// The window counts bytes, so that a page of large mutations ends early instead of filling the memory.
    static let listStatement = Statement(
        "mutations_list",
        ["organization", "user", "after", "statuses", "device", "entity_type", "limit", "bytes"],
        """
        SELECT \(MutationDetail.list), m.has_more
        FROM (
            SELECT r.*, r.place < r.found AS has_more, \(past) AS past
            FROM (
                SELECT p.*, row_number() OVER w AS place, sum(\(MutationColumn.detailBytes)) OVER w AS bytes_to
                FROM (
                    SELECT y.*, count(*) OVER () AS found
                    FROM (
                        SELECT x.* FROM mutations x
                        WHERE x.organization_id = :organization AND x.user_id = :user AND x.position > :after
                            AND (cardinality(:statuses::text[]) = 0 OR x.status = ANY (:statuses))
                            AND (:device::uuid IS NULL OR x.device_id = :device)
                            AND (:entity_type::text IS NULL OR x.entity_type = :entity_type)
                        ORDER BY x.position
                        LIMIT :limit
                    ) y
                ) p
                WINDOW w AS (ORDER BY p.position ROWS UNBOUNDED PRECEDING)
            ) r
        ) m
        WHERE m.past < 1
        ORDER BY m.position
        """
    )

    static let statements = [byIDStatement, listStatement]
}

extension MutationReader {
    /// Waits until every mutation of an answer is settled or the time limit has passed, and updates the answer.
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
            // even a lane that was running before may be halted now, by the outcome of a mutation of this push
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

    /// Adds the mappings that were resolved during the wait, and the feed's current end.
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
            // a resolved mapping remains resolved; local ids are not looked up again
            let known = Set(answer.mappings)
            answer.mappings += mappings.filter { $0.status == .resolved && touched.contains($0) && !known.contains($0) }
            if let feed = try results[1].read(FeedCursor.end).first { answer.feed = feed.end.text }
            return answer
        } catch {
            throw failure.problem(error, doing: "look up id mappings")
        }
    }

    /// Reads records. Contents are returned up to a total of `bytes` bytes.
    package static let recordsStatement = Statement(
        "mutations_records",
        ["organization", "user", "ids", "bytes", "all_bytes"],
        """
        WITH found AS MATERIALIZED (
            SELECT \(RecordColumns.stored)
            FROM mutations x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.id = ANY (:ids::uuid[])
        )
        SELECT \(RecordColumns.bounded(by: ":bytes", all: ":all_bytes"))
        FROM (
            SELECT r.*, (sum(r.bytes) OVER (ORDER BY r.position))::int8 AS bytes_to, 0::int8 AS all_to
            FROM (
                SELECT x.*, \(RecordColumns.bytes(of: "x", by: "position", upTo: ":bytes")) AS bytes
                FROM found x
                OFFSET 0
            ) r
        ) m
        """
    )
}

extension PushVerdict {
    /// Returns the verdict with the newer record of its mutation, if there is a newer record.
    fileprivate func updated(_ latest: [UUID: MutationRecord]) -> PushVerdict {
        switch self {
        case .accepted(let record): .accepted(latest[record.id] ?? record)
        case .replayed(let record): .replayed(latest[record.id] ?? record)
        case .rejected, .rejectedBefore: self
        }
    }
}
