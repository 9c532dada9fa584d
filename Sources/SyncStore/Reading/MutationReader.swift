package import Foundation
package import Postgres
package import SyncModel

/// Reads mutations, one user's own at a time.
package struct MutationReader: Sendable {
    /// The pause of a waiting reader between two looks, at least.
    static let breath: Duration = .milliseconds(2)
    /// Bytes of one page of a list.
    ///
    /// A page has one mutation at least.
    static let pageBytes: Int64 = 2_097_152

    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let stuckMutations: FailureSearcher
    let notifier: ChangeNotifier
    let failure: StoreFailure

    /// One mutation with all its attributes; nil if the user does not have it.
    ///
    /// - Parameters:
    ///   - wait: how long to wait for it to be settled.
    ///   - room: taken for the read row.
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

    /// A page of the user's mutations in lane order.
    ///
    /// - Throws: `invalid_request` for an invalid cursor or one made with another filter.
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

    /// Adds the current entity to an error that was stored without its document.
    ///
    /// The client may have no other source of it.
    private func completed(_ found: MutationDetail, _ lane: LaneKey) async throws(Problem) -> MutationDetail {
        // a mutation that took effect has overwritten the conflicting state
        guard found.record.status != .succeeded, let error = found.record.error,
            let outline = CurrentOutline(error), !outline.isWhole
        else { return found }
        do {
            return try await catalog.opening(lane.organization) { seal in
                let query = EntityRows.find(at: [(organization: lane.organization, key: outline.key)])
                let rows = try await pool.run([query])[0]
                var entities: [UUID: EntityTable] = [:]
                try EntityRows.load(rows, into: &entities, SealTable([lane.organization: seal]))
                let visibility = try await catalog.entry(lane.organization).type(outline.key.type).visibility
                guard let state = entities[lane.organization]?[outline.key],
                    state.mayBeSeen(by: lane.user, visibility),
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

    /// Waits for a change to the lane. A lane that works through many mutations changes with each, so there is a pause
    /// in any case.
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

    /// Reads one mutation more than the page holds.
    ///
    /// The window counts bytes, so that a page of large mutations ends early instead of filling the memory.
    static let listStatement = Statement(
        "mutations_list",
        ["organization", "user", "after", "statuses", "device", "entity_type", "limit", "bytes"],
        """
        SELECT \(MutationDetail.list), m.has_more
        FROM (
            SELECT p.*, row_number() OVER w AS place, sum(p.bytes) OVER w AS bytes_to,
                row_number() OVER w < count(*) OVER () AS has_more
            FROM (
                SELECT x.*, \(MutationColumn.detailBytes) AS bytes
                FROM mutations x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.position > :after
                    AND (cardinality(:statuses::text[]) = 0 OR x.status = ANY (:statuses))
                    AND (:device::uuid IS NULL OR x.device_id = :device)
                    AND (:entity_type::text IS NULL OR x.entity_type = :entity_type)
                ORDER BY x.position
                LIMIT :limit
            ) p
            WINDOW w AS (ORDER BY p.position)
        ) m
        WHERE m.place = 1 OR m.bytes_to <= :bytes
        ORDER BY m.position
        """
    )

    static let statements = [byIDStatement, listStatement]
}
