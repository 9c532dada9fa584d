import Foundation
import Postgres
import SyncModel

/// The queries that write a plan of settling.
struct SettleWriter {
    /// Rows that one statement changes: a few hundred milliseconds at the most.
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
        queries += chunks(plan.mappings.filter { !$0.isLocal }).map { mappings($0, plan.lane.changePosition) }
        return queries + localIDs(plan) + knownIDs(plan)
    }

    private func knownIDs(_ plan: SettlePlan) -> [Query] {
        var known = KnownIDs()
        for change in plan.mappings { known.add(lane, change.clientID, change.entityType, change.serverID) }
        for discard in plan.discards where discard.node.operation != .create {
            let entity = discard.node.entity
            known.add(lane, entity.localID, entity.type, entity.serverID)
        }
        return known.queries
    }

    /// The queries that write one entity, at the end of the organization's feed. The entity is locked, or there is none.
    func queries(_ key: EntityKey, _ state: EntityState) throws(SealError) -> [Query] {
        let writes = [(organization: lane.organization, writes: [(key: key, state: state)])]
        let seals = Seals([lane.organization: seal])
        return [EntityRows.raiseFeeds(writes)] + (try EntityRows.write(writes, now: now, seals))
    }

    // MARK: - Mutations

    private var laneSeal: LaneSeal { LaneSeal(seal: seal, user: lane.user) }

    private func restart(_ rows: [MutationRestart], _ changePosition: Int64) throws(SealError) -> Query {
        let (blockers, waits) = Slices.of(rows.map(\.dependsOn))
        let (references, named) = Slices.of(rows.map { $0.references?.map(\.clientID) ?? [] })
        var parameters = head(changePosition)
        parameters.add(rows.map(\.record.id))
        parameters.add(rows.map(\.status.rawValue))
        parameters.add(rows.map(\.revision))
        parameters.add(rows.map(\.isOutcomeUnknown))
        parameters.add(rows.map(\.endpoint))
        parameters.add(
            jsons: try rows.map { row throws(SealError) in
                try laneSeal.seal(json: row.payload, .payload, of: row.record.id)
            }
        )
        parameters.add(rows.map(\.resolution?.rawValue))
        parameters.add(rows.map(\.sent?.method))
        parameters.add(rows.map(\.sent?.endpoint))
        parameters.add(
            jsons: try rows.map { row throws(SealError) in
                try laneSeal.seal(json: row.sent?.payload, .sentPayload, of: row.record.id)
            }
        )
        parameters.add(waits.map(\.from))
        parameters.add(blockers.ids)
        parameters.add(waits.map(\.to))
        parameters.add(named.map(\.from))
        parameters.add(references.ids)
        parameters.add(named.map(\.to))
        parameters.add(rows.map { $0.references != nil })
        parameters.add(rows.map { $0.serverID?.text })
        parameters.add(rows.map { $0.serverID?.isInteger ?? false })
        parameters.add(rows.flatMap { $0.references?.map(\.entityType) ?? [] })
        return Query(SettleStatements.restart, parameters)
    }

    private func discard(_ rows: [MutationDiscard], _ changePosition: Int64) throws(SealError) -> Query {
        var parameters = head(changePosition)
        parameters.add(rows.map(\.node.id))
        parameters.add(rows.map(\.resolution?.rawValue))
        parameters.add(rows.map(\.serverID?.text))
        parameters.add(rows.map { $0.serverID?.isInteger ?? false })
        parameters.add(rows.map(\.version))
        parameters.add(
            jsons: try rows.map { row throws(SealError) in
                try laneSeal.seal(json: row.error, .error, of: row.node.id)
            }
        )
        return Query(SettleStatements.discard, parameters)
    }

    private func release(_ rows: [MutationRelease], _ changePosition: Int64) throws(SealError) -> Query {
        let (blockers, waits) = Slices.of(rows.map(\.dependsOn))
        // a problem shows where the mutation fails by it
        let problems = rows.map { $0.status == .failed && $0.node.status != .failed ? $0.problem : nil }
        var parameters = head(changePosition)
        parameters.add(rows.map(\.node.id))
        parameters.add(rows.map(\.status.rawValue))
        parameters.add(
            jsons: try zip(rows, problems).map { row, problem throws(SealError) in
                try laneSeal.seal(json: problem?.json, .error, of: row.node.id)
            }
        )
        parameters.add(
            try zip(rows, problems).map { row, problem throws(SealError) in
                try laneSeal.seal(text: problem?.detail, .lastError, of: row.node.id)
            }
        )
        parameters.add(problems.map { $0.map { Int32($0.code.status) } })
        parameters.add(blockers.ids)
        parameters.add(waits.map(\.from))
        parameters.add(waits.map(\.to))
        return Query(SettleStatements.release, parameters)
    }

    // MARK: - Mappings

    private func mappings(_ rows: [MappingChange], _ changePosition: Int64) -> Query {
        var parameters = head(changePosition)
        parameters.add(rows.map(\.clientID))
        parameters.add(rows.map(\.entityType))
        parameters.add(rows.map(\.mutationID))
        parameters.add(rows.map(\.status.rawValue))
        parameters.add(rows.map(\.serverID?.text))
        parameters.add(rows.map { $0.serverID?.isInteger ?? false })
        parameters.add(rows.map(\.lastError))
        return Query(SettleStatements.mappings, parameters)
    }

    // MARK: - Devices' own ids

    private func localIDs(_ plan: SettlePlan) -> [Query] {
        let named = plan.restarts.flatMap { restart in restart.localIDs.map { (restart.record.deviceID, $0) } }
        let changes = plan.mappings.filter(\.isLocal)
        let pins = chunks(named).map { rows in
            var parameters = laneParameters
            parameters.add(rows.map(\.0))
            parameters.add(rows.map(\.1.entityType))
            parameters.add(rows.map(\.1.number))
            parameters.add(rows.map { device, id in id.clientID(on: device) })
            return Query(SettleStatements.pinLocalIDs, parameters)
        }
        let adopted = changes.compactMap { change in
            change.serverID.map { CreatedIDRow(lane, change.clientID, change.mutationID, $0) }
        }
        let freed = chunks(changes.filter { $0.status == .failed }).map { rows in
            var parameters = laneParameters
            parameters.add(rows.map(\.clientID))
            parameters.add(rows.map(\.mutationID))
            return Query(SettleStatements.freeLocalIDs, parameters)
        }
        return pins + (adopted.isEmpty ? [] : [CreatedIDRow.query(adopted)]) + freed
    }

    private var laneParameters: Parameters {
        var parameters = Parameters()
        parameters.add(lane.organization)
        parameters.add(lane.user)
        return parameters
    }

    private func head(_ changePosition: Int64) -> Parameters {
        var parameters = laneParameters
        parameters.add(changePosition)
        parameters.add(timestamp: now.microseconds)
        return parameters
    }

    private func chunks<Row>(_ rows: [Row]) -> [[Row]] {
        stride(from: 0, to: rows.count, by: Self.rowsPerStatement).map { start in
            Array(rows[start..<min(rows.count, start + Self.rowsPerStatement)])
        }
    }
}
