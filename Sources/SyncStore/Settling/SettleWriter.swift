import Postgres
import SyncModel

/// The queries that write a settling plan.
struct SettleWriter {
    /// The maximum number of rows that one statement changes. Such a statement takes at most a few hundred
    /// milliseconds.
    static let rowsPerStatement = 5_000

    let lane: LaneKey
    let now: Timestamp
    let seal: Seal

    func queries(_ plan: SettlePlan) throws(SealError) -> [Query] {
        guard !plan.isEmpty else { return [] }
        var queries = [LaneRows.write([LaneRow(key: lane, state: plan.lane)])]
        for rows in chunks(plan.restarts) { queries.append(try restart(rows, plan.lane.changePosition)) }
        for rows in chunks(plan.discards) { queries.append(try discard(rows, plan.lane.changePosition)) }
        for rows in chunks(plan.releases) { queries.append(try release(rows, plan.lane.changePosition)) }
        if !plan.due.isEmpty {
            let rows = plan.due.map { (lane: lane, id: $0, changePosition: plan.lane.changePosition) }
            queries.append(SettleStatements.ended.query(SettleStatements.endBackOff, rows, at: now))
        }
        queries += chunks(plan.mappings.filter { !$0.isLocal }).map { mappings($0, plan.lane.changePosition) }
        return queries + localIDs(plan) + knownIDs(plan)
    }

    private func knownIDs(_ plan: SettlePlan) -> [Query] {
        var known = KnownIDs()
        for change in plan.mappings { known.add(lane, change.clientID, change.entityType, change.serverID) }
        for discard in plan.discards where discard.node.operation != .create {
            let entity = discard.node.entity
            known.add(lane, entity.clientID, entity.type, entity.serverID)
        }
        return known.queries
    }

    /// Returns the queries that write one entity and move it to the end of the organization's feed.
    ///
    /// If the entity exists, it must be locked.
    func queries(_ key: EntityKey, _ state: EntityState) throws(SealError) -> [Query] {
        let writes = [(organization: lane.organization, writes: [(key: key, state: state)])]
        let seals = SealTable([lane.organization: seal])
        return [EntityRows.raiseFeeds(writes)] + (try EntityRows.write(writes, now: now, seals))
    }

    // MARK: - Mutations

    private var laneSeal: LaneSeal { LaneSeal(seal: seal, user: lane.user) }

    private func restart(_ restarts: [MutationRestart], _ changePosition: Int64) throws(SealError) -> Query {
        var (blockers, references) = (FlattenedLists(), FlattenedLists())
        let rows = try restarts.map { restart throws(SealError) in
            try RestartRow(
                restart,
                blockers: blockers.add(restart.dependsOn),
                references: references.add(restart.references?.map(\.clientID) ?? []),
                laneSeal
            )
        }
        var parameters = head(changePosition)
        RestartRow.columns.add(rows, to: &parameters)
        parameters.add(blockers.ids)
        parameters.add(references.ids)
        parameters.add(restarts.flatMap { $0.references?.map(\.entityType) ?? [] })
        return Query(SettleStatements.restart, parameters)
    }

    private func discard(_ discards: [MutationDiscard], _ changePosition: Int64) throws(SealError) -> Query {
        let rows = try discards.map { discard throws(SealError) in try DiscardRow(discard, laneSeal) }
        var parameters = head(changePosition)
        DiscardRow.columns.add(rows, to: &parameters)
        return Query(SettleStatements.discard, parameters)
    }

    private func release(_ releases: [MutationRelease], _ changePosition: Int64) throws(SealError) -> Query {
        var blockers = FlattenedLists()
        let rows = try releases.map { release throws(SealError) in
            try ReleaseRow(release, blockers: blockers.add(release.dependsOn), laneSeal)
        }
        var parameters = head(changePosition)
        ReleaseRow.columns.add(rows, to: &parameters)
        parameters.add(blockers.ids)
        return Query(SettleStatements.release, parameters)
    }

    // MARK: - Mappings

    private func mappings(_ changes: [MappingChange], _ changePosition: Int64) -> Query {
        var parameters = head(changePosition)
        MappingChange.columns.add(changes, to: &parameters)
        return Query(SettleStatements.mappings, parameters)
    }

    // MARK: - Local ids

    private func localIDs(_ plan: SettlePlan) -> [Query] {
        let named = plan.restarts.flatMap { restart in
            restart.localIDs.map { PinRow(device: restart.record.deviceID, id: $0) }
        }
        let changes = plan.mappings.filter(\.isLocal)
        let pins = chunks(named).map { rows in
            var parameters = Parameters(of: lane)
            PinRow.columns.add(rows, to: &parameters)
            return Query(SettleStatements.pinLocalIDs, parameters)
        }
        let adopted = changes.compactMap { change in
            change.serverID.map {
                CreatedIDRow(lane: lane, clientID: change.clientID, mutation: change.mutationID, serverID: $0)
            }
        }
        let freed = chunks(changes.filter { $0.status == .failed }).map { changes in
            var parameters = Parameters(of: lane)
            MappingChange.freeing.add(changes, to: &parameters)
            return Query(SettleStatements.freeLocalIDs, parameters)
        }
        return pins + (adopted.isEmpty ? [] : [CreatedIDRow.columns.query(LaneStatements.writeLocalIDs, adopted)])
            + freed
    }

    private func head(_ changePosition: Int64) -> Parameters {
        let parameters = Parameters(of: lane, changePosition, now)
        return parameters
    }

    private func chunks<Row>(_ rows: [Row]) -> [[Row]] {
        stride(from: 0, to: rows.count, by: Self.rowsPerStatement).map { start in
            Array(rows[start..<min(rows.count, start + Self.rowsPerStatement)])
        }
    }
}
