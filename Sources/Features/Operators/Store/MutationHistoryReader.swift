package import FoundationEssentials
import Postgres
package import SyncModel
package import SyncStore

/// Reads the history of one mutation, as of one moment.
///
/// The history consists of the pushed content, the request to the upstream, the result of each attempt, the mutations
/// for which this mutation waits, and its entity.
package struct MutationHistoryReader: Sendable {
    /// The maximum number of client ids in the mutation's content that are looked up.
    private static let names = 1_000

    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let failure: StoreFailure

    /// Returns the history of a mutation; nil if the user has no mutation with this id.
    package func mutationHistory(of id: UUID, organization: Organization, user: UUID) async throws(Problem)
        -> MutationHistory?
    {
        let lane = LaneKey(organization: organization.id, user: user)
        do {
            let entry = try await catalog.entry(organization.id)
            return try await catalog.opening(organization.id) { seal in
                try await pool.withConnection { connection in
                    try await read(id, lane, organization, entry, seal, on: connection)
                }
            }
        } catch {
            throw failure.problem(error, doing: "read a mutation's history")
        }
    }

    private func read(
        _ id: UUID,
        _ lane: LaneKey,
        _ organization: Organization,
        _ entry: Catalog.Entry,
        _ seal: Seal,
        on connection: Connection
    ) async throws -> MutationHistory? {
        let moment = now()
        let key = Parameters(of: lane, id)
        let results = try await connection.runByIndex(
            [
                MutationReader.byIDStatement(organization: lane.organization, user: lane.user, ids: [id]),
                Query(MutationHistoryStatements.queued, key),
                Query(MutationHistoryStatements.attempts, key), Query(MutationHistoryStatements.waitsFor, key),
                Query(MutationHistoryStatements.waiters, key), Query(MutationHistoryStatements.ahead, key),
                Query(MutationHistoryStatements.entity, key),
                Query(MutationHistoryStatements.history, key),
                BacklogReader.laneStatement(organization: lane.organization, user: lane.user),
            ],
            after: [.beginReading]
        )
        // values that cannot be decrypted are shown as unreadable, without waiting for a newer key
        let last = seal.withoutKeyRefresh
        let details = try results[1].read { try MutationDetail(&$0, user: lane.user, last) }
        guard let detail = details.first, var row = results[2].first else {
            _ = try await connection.run(Query.rollback)
            return nil
        }
        let changedAt: Timestamp = try row.read("changed_at")
        let queued = try QueuedColumns.mutation(&row, LaneSeal(seal: last, user: lane.user))
        var mutationHistory = MutationHistory(detail: detail.seen(in: organization, at: moment), changedAt: changedAt)
        mutationHistory.attempts = try results[3].read(MutationHistory.Attempt.init)
        mutationHistory.waitsFor = try results[4].read(MutationHistory.RelatedMutation.init)
        try mutationHistory.readWaiters(results[5])
        mutationHistory.ahead = BoundedCount(found: try results[6].read(0, 0))
        mutationHistory.entity = try mutationHistory.entity(in: results[7], SealTable([lane.organization: last]))
        mutationHistory.history = try results[8].read(MutationHistory.EntityMutation.init)
        let head = try LaneHead(results[9])
        mutationHistory.blocker = head.blocker(now: moment)
        mutationHistory.haltedBy = head.haltedBy
        let type = entry.type(queued.entity.type)
        let names = Array(queued.namedIDs(in: type).prefix(Self.names))
        let resolved = try await connection.run([
            MutationHistoryStatements.resolved(organization: lane.organization, user: lane.user, client_ids: names),
            .rollback,
        ])[0]
        let mappings = try Self.mappings(resolved)
        let surroundings = DispatchPlanner.LaneContext(
            lane: lane,
            token: 0,
            leasedUntil: moment,
            organization: organization,
            type: type,
            mappings: mappings,
            entity: queued.operation == .create ? nil : mutationHistory.entity?.state
        )
        let recalled = detail.record.status.isFinal ? queued.recalling(mappings) : queued
        mutationHistory.sent = ReplayPreview(of: recalled, surroundings, now: moment)
        return mutationHistory
    }

    private static func mappings(_ rows: Rows) throws -> [UUID: [DispatchPlanner.ResolvedID]] {
        var mappings: [UUID: [DispatchPlanner.ResolvedID]] = [:]
        for var row in rows {
            let client: UUID = try row.read("client_id")
            let type: String = try row.read("entity_type")
            guard let id = try row.serverID() else { continue }
            mappings[client, default: []].append(DispatchPlanner.ResolvedID(entityType: type, serverID: id))
        }
        return mappings
    }
}

extension MutationHistory {
    fileprivate mutating func readWaiters(_ rows: Rows) throws {
        for var row in rows {
            let count: Int64 = try row.read("count")
            let isCut: Bool = try row.read("is_cut")
            waiterCount = BoundedCount(found: isCut ? count + 1 : count, limit: count)
            waiters.append(try RelatedMutation(&row))
        }
    }

    fileprivate func entity(in rows: Rows, _ seals: SealTable) throws -> Entity? {
        guard var row = rows.first else { return nil }
        let (key, state) = try EntityRows.read(&row, seals)
        return Entity(
            id: ServerID(text: key.key.id, isInteger: state.isIntegerID),
            state: state,
            feedPosition: state.stored?.position ?? 0,
            updatedAt: try row.read("updated_at")
        )
    }
}

extension MutationHistory.RelatedMutation {
    fileprivate init(_ row: inout RowReader) throws {
        self.init(
            id: try row.read("id"),
            status: try row.choice("status"),
            operation: try row.choice("operation"),
            entity: try row.entity()
        )
    }
}

extension MutationHistory.Attempt {
    init(_ row: inout RowReader) throws {
        let ordinal: Int32 = try row.read("ordinal")
        let result: AttemptRecord.Result = try row.choice("outcome")
        self.init(
            ordinal: ordinal,
            note: AttemptRecord(
                result: result,
                revision: try row.read("revision"),
                number: try row.read("number"),
                sentAt: try row.read("sent_at"),
                milliseconds: try row.read("duration_ms"),
                status: try row.read("status"),
                reason: try row.read("error")
            )
        )
    }
}

extension MutationHistory.EntityMutation {
    fileprivate init(_ row: inout RowReader) throws {
        self.init(
            id: try row.read("id"),
            status: try row.choice("status"),
            operation: try row.choice("operation"),
            version: try row.read("version"),
            changedAt: try row.read("changed_at")
        )
    }
}

// MARK: - MutationHistory

/// The complete history of one mutation, as of one moment.
package struct MutationHistory: Sendable {
    /// Another mutation of the lane, with the properties that a graph of dependencies shows.
    package struct RelatedMutation: Sendable {
        package let id: UUID
        package let status: MutationStatus
        package let operation: SyncModel.Operation
        package let entity: EntityName
    }

    /// A stored attempt.
    package struct Attempt: Sendable {
        /// The attempt's number among all attempts of the mutation, including attempts before an edit.
        package let ordinal: Int32
        package let note: AttemptRecord
    }

    /// The entity as stored in the feed.
    package struct Entity: Sendable {
        package let id: ServerID
        package let state: EntityState
        package let feedPosition: Int64
        package let updatedAt: Timestamp
    }

    /// Another mutation of the same entity.
    package struct EntityMutation: Sendable {
        package let id: UUID
        package let status: MutationStatus
        package let operation: SyncModel.Operation
        package let version: Int64?
        package let changedAt: Timestamp
    }

    package let detail: MutationDetail
    /// The time at which the mutation got its present status.
    package let changedAt: Timestamp
    /// The request to the upstream; nil if the mutation is not replayed, or cannot be sent in its present state.
    package var sent: ReplayPreview?
    /// The last attempts, in chronological order.
    package var attempts: [Attempt] = []
    package var waitsFor: [RelatedMutation] = []
    /// The first mutations that wait for this mutation.
    package var waiters: [RelatedMutation] = []
    package var waiterCount = BoundedCount(found: 0)
    package var haltedBy: UUID?
    /// The number of open mutations before this mutation in the lane.
    package var ahead = BoundedCount(found: 0)
    /// The reason why the lane's first mutation does not run.
    package var blocker: LaneBlocker?
    package var entity: Entity?
    /// The entity's mutations, newest first.
    package var history: [EntityMutation] = []
}
