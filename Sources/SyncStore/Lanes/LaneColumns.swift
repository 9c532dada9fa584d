import Foundation
import Postgres
import SyncModel

// The inputs of a group's lane statements, column by column.

/// (job, organization, user).
struct JobColumns {
    private var jobs: [Int32] = []
    private var organizations: [UUID] = []
    private var users: [UUID] = []

    mutating func add(_ job: Int, _ lane: LaneKey) {
        jobs.append(Int32(job))
        organizations.append(lane.organization)
        users.append(lane.user)
    }

    var isEmpty: Bool { jobs.isEmpty }

    var parameters: Parameters {
        var parameters = Parameters()
        parameters.add(jobs)
        parameters.add(organizations)
        parameters.add(users)
        return parameters
    }
}

/// Lanes whose heads are looked for.
struct HeadColumns {
    private var jobs = JobColumns()
    private var positions: [Int64] = []

    mutating func add(_ job: Int, _ lane: LaneKey, _ state: LaneState) {
        jobs.add(job, lane)
        positions.append(state.headPosition)
    }

    var isEmpty: Bool { jobs.isEmpty }

    var query: Query {
        var parameters = jobs.parameters
        parameters.add(positions)
        return Query(LaneStatements.heads, parameters)
    }
}

/// Mutations whose waiters are released.
struct BlockerColumns {
    private var jobs = JobColumns()
    private var blockers: [UUID] = []
    private var changePositions: [Int64] = []

    mutating func add(_ job: Int, _ lane: LaneKey, _ blocker: UUID, _ state: LaneState) {
        jobs.add(job, lane)
        blockers.append(blocker)
        changePositions.append(state.changePosition)
    }

    var isEmpty: Bool { jobs.isEmpty }

    /// What a statement may cost, over all lanes, in look-ups: a tenth of a second, so that whoever is committed together
    /// with a lane that has much to release hardly waits for it.
    static let budget = 16_384

    func query(_ now: Timestamp) -> Query {
        var parameters = jobs.parameters
        parameters.add(blockers)
        parameters.add(changePositions)
        parameters.add(blockers.map { _ in Int64(Self.budget / blockers.count) })
        parameters.add(timestamp: now.microseconds)
        return Query(LaneStatements.unblock, parameters)
    }
}

/// What is in flight from now on.
struct FlightColumns {
    private var dispatches: [Dispatch] = []

    mutating func add(_ dispatch: Dispatch) {
        dispatches.append(dispatch)
    }

    var isEmpty: Bool { dispatches.isEmpty }

    func query(_ now: Timestamp) -> Query {
        var parameters = LaneRows.keys(dispatches.map(\.lane))
        parameters.add(dispatches.map(\.mutation.id))
        parameters.add(
            dispatches.map { dispatch -> Int16 in
                // the built-in store is no attempt
                guard case .upstream = dispatch.destination else { return dispatch.mutation.attemptCount }
                return dispatch.attempts
            }
        )
        parameters.add(timestamp: now.microseconds)
        return Query(LaneStatements.markInFlight, parameters)
    }
}

/// What came of mutations.
struct OutcomeColumns {
    /// A class: it is read column by column, and never copied.
    private final class Row {
        let lane: LaneKey
        let id: UUID
        let outcome: Outcome
        let version: Int64?
        let changePosition: Int64
        let from: MutationStatus

        init(
            _ lane: LaneKey,
            _ id: UUID,
            _ outcome: Outcome,
            _ version: Int64?,
            _ state: LaneState,
            from: MutationStatus
        ) {
            self.lane = lane
            self.id = id
            self.outcome = outcome
            self.version = version
            changePosition = state.changePosition
            self.from = from
        }
    }

    private var rows: [Row] = []

    mutating func add(
        _ lane: LaneKey,
        _ id: UUID,
        _ outcome: Outcome,
        _ version: Int64?,
        _ state: LaneState,
        from: MutationStatus
    ) {
        // one that is sent otherwise stays where it is
        assert(from == outcome.status || from.canBecome(outcome.status))
        rows.append(Row(lane, id, outcome, version, state, from: from))
    }

    var isEmpty: Bool { rows.isEmpty }

    func query(_ now: Timestamp, _ seals: Seals) throws(SealError) -> Query {
        let sealed = rows.map { seals.lane($0.lane) }
        func column(
            _ column: SealedPlace.Column,
            _ value: (Row) -> [UInt8]?
        ) throws(SealError) -> [[UInt8]?] {
            try zip(rows, sealed).map { row, seal throws(SealError) in
                try seal.seal(json: value(row), column, of: row.id)
            }
        }
        var parameters = LaneRows.keys(rows.map(\.lane))
        parameters.add(rows.map(\.id))
        parameters.add(rows.map(\.outcome.status.rawValue))
        parameters.add(rows.map(\.outcome.revision))
        parameters.add(rows.map(\.outcome.attemptCount))
        parameters.add(timestamps: rows.map { $0.outcome.nextRetryAt?.microseconds })
        parameters.add(rows.map(\.outcome.serverID?.text))
        parameters.add(rows.map { $0.outcome.serverID?.isInteger ?? false })
        parameters.add(rows.map(\.version))
        parameters.add(rows.map(\.outcome.resolution?.rawValue))
        parameters.add(rows.map(\.outcome.responseStatus))
        parameters.add(jsons: try column(.responseBody, \.outcome.responseBody))
        parameters.add(jsons: try column(.error, \.outcome.error))
        parameters.add(
            try zip(rows, sealed).map { row, seal throws(SealError) in
                try seal.seal(text: row.outcome.lastError, .lastError, of: row.id)
            }
        )
        parameters.add(rows.map(\.outcome.lastErrorCode))
        parameters.add(rows.map(\.outcome.isOutcomeUnknown))
        parameters.add(rows.map(\.outcome.conflictRetries))
        parameters.add(rows.map(\.outcome.override?.method))
        parameters.add(rows.map(\.outcome.override?.endpoint))
        parameters.add(jsons: try column(.sentPayload) { $0.outcome.override?.payload })
        parameters.add(rows.map(\.changePosition))
        parameters.add(rows.map(\.from.rawValue))
        parameters.add(timestamp: now.microseconds)
        parameters.add(rows.map { $0.outcome.hold?.count ?? 0 })
        parameters.add(timestamps: rows.map { $0.outcome.hold?.since.microseconds })
        parameters.add(rows.map(\.outcome.etag))
        return Query(LaneStatements.writeOutcomes, parameters)
    }
}

/// What became of the mappings of creates.
struct MappingColumns {
    private struct Row {
        let lane: LaneKey
        let clientID: UUID
        let entityType: String
        let outcome: Outcome
        let changePosition: Int64
    }

    private var rows: [Row] = []

    /// Creates only have one; those under a device's own id, or a global one, have none.
    mutating func add(_ lane: LaneKey, _ mutation: QueuedMutation, _ outcome: Outcome, _ state: LaneState) {
        guard mutation.operation == .create, mutation.localNumber == nil, let clientID = mutation.localID else {
            return
        }
        let row = Row(
            lane: lane,
            clientID: clientID,
            entityType: mutation.entityType,
            outcome: outcome,
            changePosition: state.changePosition
        )
        rows.append(row)
    }

    var isEmpty: Bool { rows.isEmpty }

    func query(_ now: Timestamp, _ seals: Seals) -> Query {
        // an id counts once the create is final
        let ids = rows.map { $0.outcome.status.isFinal ? $0.outcome.serverID : nil }
        var parameters = LaneRows.keys(rows.map(\.lane))
        parameters.add(rows.map(\.clientID))
        parameters.add(rows.map(\.entityType))
        parameters.add(ids.map(\.?.text))
        parameters.add(ids.map { $0?.isInteger ?? false })
        parameters.add(rows.map { $0.outcome.status == .failed })
        parameters.add(rows.map { Int16($0.outcome.isFailedTry ? 1 : 0) })
        // an upstream's words stand in the mutation, too, and sealed there
        parameters.add(
            rows.map { row in
                row.outcome.status.isFinal || !seals[row.lane.organization].isPlain ? nil : row.outcome.lastError
            }
        )
        parameters.add(rows.map(\.changePosition))
        parameters.add(timestamp: now.microseconds)
        return Query(LaneStatements.writeMappings, parameters)
    }
}

/// What was created under devices' own ids.
struct CreatedIDColumns {
    private var lanes: [LaneKey] = []
    private var clientIDs: [UUID] = []
    private var mutations: [UUID] = []
    private var serverIDs: [ServerID] = []

    /// An id leads somewhere once its create is final.
    mutating func add(_ lane: LaneKey, _ mutation: QueuedMutation, _ outcome: Outcome) {
        guard outcome.status.isFinal, mutation.operation == .create, mutation.localNumber != nil,
            let clientID = mutation.localID, let serverID = outcome.serverID
        else { return }
        add(lane, clientID, mutation.id, serverID)
    }

    /// - Parameter clientID: what stands for the device's own id.
    mutating func add(_ lane: LaneKey, _ clientID: UUID, _ mutation: UUID, _ serverID: ServerID) {
        lanes.append(lane)
        clientIDs.append(clientID)
        mutations.append(mutation)
        serverIDs.append(serverID)
    }

    var isEmpty: Bool { lanes.isEmpty }

    var query: Query {
        var parameters = LaneRows.keys(lanes)
        parameters.add(clientIDs)
        parameters.add(mutations)
        parameters.add(serverIDs.map(\.text))
        parameters.add(serverIDs.map(\.isInteger))
        return Query(LaneStatements.writeLocalIDs, parameters)
    }
}
