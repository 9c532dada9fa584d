import Foundation
import GroupCommit
import Postgres
import SyncModel

/// One group of lane steps on its way through its transaction: what was read, what was decided, what is to be written.
/// Decides by ``TurnPlanner`` and ``Outcome``; talks to nobody.
struct LaneGroup {
    /// A step whose lane is locked and ours. A class: it is changed in many places, and never copied.
    private final class Live {
        let job: LaneJob
        let entry: Catalog.Entry
        var lane: LaneState
        /// Whether the lane's last worker was lost.
        let isTakeover: Bool
        /// Whether the step was committed before, and its worker did not hear of it: what is in flight was never sent.
        let isRepeated: Bool
        var settled: [Settled] = []
        /// Mutations whose waiters are to be released.
        var unblocking: [UUID] = []
        /// What was released, and the blockers for which that was not all.
        var lowestReleased: Int64?
        var unfinished: [UUID] = []
        var head: QueuedMutation?
        /// Where the head stands that cannot be opened, and why.
        var sealedHead: (position: Int64, error: SealError)?
        var mappings: [UUID: [TurnPlanner.ResolvedID]] = [:]
        var entity: TurnPlanner.KnownEntity?
        /// What is marked as in flight.
        var dispatch: Dispatch?
        /// What came of the head without being run: it never can, or is in conflict with what is known here.
        var decided: Settled?
        var turn: LaneTurn = .lost

        init(job: LaneJob, entry: Catalog.Entry, lane: LaneState, isTakeover: Bool = false, isRepeated: Bool = false) {
            self.job = job
            self.entry = entry
            self.lane = lane
            self.isTakeover = isTakeover
            self.isRepeated = isRepeated
        }

        /// Whether what the row says of the flight is to be put right first.
        var mustRecover: Bool { isTakeover || isRepeated }
    }

    /// A mutation that was in flight, and what came of it.
    private struct Settled {
        let mutation: QueuedMutation
        let outcome: Outcome
        let version: Int64?

        var id: UUID { mutation.id }
        var position: Int64 { mutation.position }
    }

    /// Seconds for which lanes wait that cannot be run: of organizations that are not served, or whose data cannot be
    /// opened.
    static let pause: Double = 30

    private let group: [LaneJob]
    private let entries: [UUID: Catalog.Entry]
    private let seals: SealTable
    /// Of entities' documents: what does not open is not patched.
    private let documentSeals: SealTable
    private let planner: TurnPlanner
    private let now: Timestamp
    /// By place in the group; nil for steps that are lost.
    private var live: [Live?]
    private var entities: [UUID: EntityTable] = [:]
    /// What was found to be wrong with lanes and mended.
    private(set) var notes: [(lane: LaneKey, text: String)] = []

    init(
        _ group: [LaneJob],
        entries: [UUID: Catalog.Entry],
        _ certainty: Certainty,
        leaseSeconds: Double,
        now: Timestamp
    ) {
        self.group = group
        self.entries = entries
        // what another configuration opens waits for that
        seals = SealTable(entries.mapValues { $0.seal.closing(.damaged) })
        documentSeals = SealTable(entries.mapValues { certainty.hasNewestKeys ? $0.seal.lastWord : $0.seal })
        planner = TurnPlanner(leaseSeconds: leaseSeconds)
        self.now = now
        live = group.map { _ in nil }
    }

    // MARK: - 1: lock

    var lockQueries: [Query] {
        var queries: [Query] = [.begin, LaneRows.lock(group.map(\.lane))]
        let keys = group.compactMap { job -> (organization: UUID, key: EntityKey)? in
            switch job.step {
            case .claim, .goOn: nil
            case .settle(let dispatch, let outcome):
                outcome.entityKey(of: dispatch).map { (job.lane.organization, $0) }
            case .apply(let dispatch):
                dispatch.serverID.map { (job.lane.organization, EntityKey(type: dispatch.type.name, id: $0.text)) }
            }
        }
        if !keys.isEmpty { queries.append(EntityRows.lock(keys)) }
        return queries
    }

    mutating func readLocked(_ results: [Rows]) throws {
        let lanes = try LaneRows.lanes(results[1])
        if results.count > 2 { try EntityRows.load(results[2], into: &entities, documentSeals) }
        for (index, job) in group.enumerated() {
            guard var lane = lanes[job.lane], let entry = entries[job.lane.organization] else { continue }
            let lease = now.adding(seconds: planner.leaseSeconds)
            if let token = job.step.token {
                guard lane.leaseToken == token, lane.leaseOwner == job.worker else { continue }
                if mustRenew(lane, entry) { lane.readyAt = lease }
                let isRepeated = lane.inFlight != job.step.dispatch?.mutation.id
                live[index] = Live(job: job, entry: entry, lane: lane, isRepeated: isRepeated)
            } else {
                // a process runs a lane once: under a lease of its own it has let go of the lane, or has not heard of the
                // claim
                guard lane.isReady(at: now) || lane.leaseOwner == job.worker else { continue }
                let isTakeover = lane.leaseOwner != nil
                lane.leaseToken += 1
                lane.leaseOwner = job.worker
                lane.readyAt = lease
                live[index] = Live(job: job, entry: entry, lane: lane, isTakeover: isTakeover)
            }
        }
    }

    /// A lease is renewed while there is room for a whole request. One that ends later than any does was taken before
    /// the clock was set back.
    private func mustRenew(_ lane: LaneState, _ entry: Catalog.Entry) -> Bool {
        guard let end = lane.readyAt, end <= now.adding(seconds: planner.leaseSeconds) else { return true }
        let request = Double(entry.organization?.upstream?.timeoutSeconds ?? 0)
        let needed = max(
            planner.leaseSeconds / 2,
            min(request, planner.leaseSeconds - planner.leaseMargin) + planner.leaseMargin / 2
        )
        return end < now.adding(seconds: needed)
    }

    // MARK: - 2: lanes whose worker was lost

    var lostQueries: [Query] {
        let taken = live.indices.filter { live[$0]?.mustRecover == true }
        guard !taken.isEmpty else { return [] }
        var flights: [PushIDRow] = []
        var lanes: [JobRow] = []
        for index in taken {
            guard let step = live[index] else { continue }
            if let id = step.lane.inFlight { flights.append(PushIDRow(push: index, lane: step.job.lane, id: id)) }
            lanes.append(JobRow(job: Int32(index), lane: step.job.lane))
        }
        return [
            PushIDRow.ids.query(LaneStatements.inFlight, flights),
            Query(LaneStatements.doneBlockers, JobRow.columns.parameters(lanes)),
        ]
    }

    mutating func readLost(_ results: [Rows]) throws {
        for var row in results[0] {
            let index = Int(try row.int32("job"))
            guard let step = live[index] else { continue }
            let mutation = try queued(&row, step)
            let isForwarded = step.entry.type(mutation.entityType)?.isForwarded ?? false
            live[index]?.settled.append(
                Settled(
                    mutation: mutation,
                    outcome: step.isRepeated
                        ? Outcome(ofUnsent: mutation, isForwarded: isForwarded)
                        : Outcome(ofLost: mutation, wasSent: isForwarded),
                    version: nil
                )
            )
        }
        for var row in results[1] {
            live[Int(try row.int32("job"))]?.unblocking.append(try row.uuid("id"))
        }
        for index in live.indices where live[index]?.mustRecover == true {
            live[index]?.lane.inFlight = nil
        }
    }

    /// Reads a mutation, if need be without what of it stays closed: what was damaged, and what was accepted long ago and
    /// is under a data key that is nowhere.
    private func queued(_ row: inout RowReader, _ step: Live) throws -> QueuedMutation {
        let seal = seals.lane(step.job.lane)
        let start = row
        do {
            return try QueuedColumns.mutation(&row, seal)
        } catch SealError.unknownKey(let number) where step.entry.readAt >= now && !seal.seal.isThere(number) {
            let closed = LaneSeal(seal: seal.seal.lastWord, user: seal.user)
            row = start
            let mutation = try QueuedColumns.mutation(&row, closed)
            // the key may have been made a moment ago
            guard mutation.acceptedAt.adding(seconds: KeyRotation.grace) < now else {
                throw SealError.unknownKey(number)
            }
            return mutation
        }
    }

    // MARK: - 3: outcomes

    /// Works out what came of what was in flight, and what that does to entities and lanes.
    mutating func settle(_ makeID: () -> UUID) {
        for index in live.indices {
            guard let step = live[index] else { continue }
            let organization = step.job.lane.organization
            switch step.job.step {
            case .claim: break
            case .settle where step.isRepeated, .apply where step.isRepeated: break
            case .goOn(_, let unblocking):
                step.unblocking += unblocking
            case .settle(let dispatch, var outcome):
                let version = outcome.enterFeed(of: dispatch, &entities[organization, default: EntityTable()])
                step.settled.append(Settled(mutation: dispatch.mutation, outcome: outcome, version: version))
            case .apply(let dispatch):
                guard case .builtIn(let payload) = dispatch.destination else { break }
                let (outcome, version) = dispatch.applied(
                    to: &entities[organization, default: EntityTable()],
                    payload: payload,
                    makeID: makeID
                )
                step.settled.append(Settled(mutation: dispatch.mutation, outcome: outcome, version: version))
            }
            step.lane.changePosition += 1
            for settled in step.settled { Self.note(settled, in: step) }
            // one at a time: a statement's work has a bound
            step.unfinished = Array(step.unblocking.dropFirst())
            step.unblocking = Array(step.unblocking.prefix(1))
        }
    }

    private static func note(_ settled: Settled, in step: Live) {
        let status = settled.outcome.status
        step.lane.inFlight = nil
        if !status.isQueued {
            step.lane.queuedCount -= 1
            // the next one is likely to stand right behind it
            if step.lane.headPosition == settled.position { step.lane.headPosition += 1 }
        } else {
            step.lane.headPosition = min(step.lane.headPosition, settled.position)
        }
        if status.isFinal { step.lane.openCount -= 1 }
        if step.entry.organization?.settings.halts(at: status) ?? false { step.lane.haltedBy = settled.id }
        if settled.outcome.satisfiesDependants { step.unblocking.append(settled.id) }
    }

    /// In this order: outcomes, mappings, devices' own ids, known ids, released mutations, then what comes next.
    var settleQueries: [Query] {
        get throws(SealError) { try makeSettleQueries() }
    }

    private func makeSettleQueries() throws(SealError) -> [Query] {
        var outcomes: [OutcomeRow] = []
        var mappings: [MappingOutcomeRow] = []
        var localIDs: [CreatedIDRow] = []
        var knownIDs = KnownIDs()
        var released: [BlockerRow] = []
        var heads: [HeadRow] = []
        for (index, step) in live.enumerated() {
            guard let step else { continue }
            let lane = step.job.lane
            for settled in step.settled {
                outcomes.append(try outcome(settled, of: step, from: .inFlight))
                if let row = MappingOutcomeRow(lane, settled.mutation, settled.outcome, step.lane, seals) {
                    mappings.append(row)
                }
                if let row = CreatedIDRow(lane, settled.mutation, settled.outcome) { localIDs.append(row) }
                knownIDs.add(lane, settled.mutation, settled.outcome, step.lane)
            }
            for id in step.unblocking {
                let changed = step.lane.changePosition
                released.append(BlockerRow(job: Int32(index), lane: lane, blocker: id, changePosition: changed))
            }
            heads.append(HeadRow(job: Int32(index), lane: lane, headPosition: step.lane.headPosition))
        }
        guard !heads.isEmpty else { return [] }
        var queries: [Query] = []
        if !outcomes.isEmpty { queries.append(OutcomeRow.query(outcomes, now)) }
        if !mappings.isEmpty { queries.append(MappingOutcomeRow.query(mappings, now)) }
        if !localIDs.isEmpty { queries.append(CreatedIDRow.query(localIDs)) }
        queries += knownIDs.queries
        if !released.isEmpty { queries.append(BlockerRow.query(released, now)) }
        return queries + [Query(LaneStatements.heads, HeadRow.columns.parameters(heads))]
    }

    private func outcome(_ settled: Settled, of step: Live, from: MutationStatus) throws(SealError) -> OutcomeRow {
        try OutcomeRow(
            step.job.lane,
            settled.id,
            settled.outcome,
            settled.version,
            step.lane,
            from: from,
            seals
        )
    }

    mutating func readNext(_ results: [Rows]) throws {
        let heads = results[results.count - 1]
        if live.contains(where: { $0?.unblocking.isEmpty == false }) { try readReleased(results[results.count - 2]) }
        for var row in heads {
            guard let step = live[Int(try row.int32("job"))] else { continue }
            let start = row
            do {
                let head = try queued(&row, step)
                let mappings = try Self.mappings(&row)
                step.entity = try Self.entity(&row, type: head.entityType, seals[step.job.lane.organization])
                (step.head, step.mappings) = (head, mappings)
            } catch let error as SealError {
                // what came of the request before is written all the same
                row = start
                step.sealedHead = (try QueuedColumns.position(&row), error)
            }
        }
    }

    /// Four arrays side by side: client ids, types, server ids, and whether these are integers.
    private static func mappings(_ row: inout RowReader) throws -> [UUID: [TurnPlanner.ResolvedID]] {
        let clients = try row.optionalUUIDs("client_ids") ?? []
        let types = try row.optionalStrings("entity_types") ?? []
        let ids = try row.optionalStrings("server_ids") ?? []
        let areIntegers = try row.optionalBools("are_integers") ?? []
        var mappings: [UUID: [TurnPlanner.ResolvedID]] = [:]
        for (place, client) in clients.enumerated() {
            let id = ServerID(text: ids[place], isInteger: areIntegers[place])
            mappings[client, default: []].append(TurnPlanner.ResolvedID(entityType: types[place], serverID: id))
        }
        return mappings
    }

    private static func entity(
        _ row: inout RowReader,
        type: String,
        _ seal: Seal
    ) throws -> TurnPlanner.KnownEntity? {
        // what is there has an id
        guard let id = try row.optionalString("entity_id") else { return nil }
        var unreadable: [String] = []
        return TurnPlanner.KnownEntity(
            etag: try row.optionalString("etag"),
            owner: try row.uuid("owner_id"),
            lastWriter: Writer(user: try row.uuid("updated_by"), device: try row.uuid("updated_on")),
            version: try row.int64("version"),
            runBase: try row.int64("run_base"),
            isDeleted: try row.bool("is_deleted"),
            document: try seal.read(
                json: row.optionalBytes("document"),
                as: .document(type: type, id: id),
                &unreadable
            ),
            isUnreadable: !unreadable.isEmpty
        )
    }

    private mutating func readReleased(_ rows: Rows) throws {
        // a mutation's id is unique in its lane only, and each lane releases what waits for one
        var unfinished: Set<Int> = []
        for var row in rows {
            let index = Int(try row.int32("job"))
            let blocker = try row.uuid("blocker")
            let position = try row.int64("position")
            let acceptedAt = try row.moment("accepted_at")
            let status: MutationStatus = try row.choice("status")
            if try row.bool("more"), unfinished.insert(index).inserted { live[index]?.unfinished.append(blocker) }
            guard status == .pending else { continue }
            live[index]?.lane.enqueue(position: position, acceptedAt: acceptedAt)
            let lowest = live[index]?.lowestReleased ?? position
            live[index]?.lowestReleased = min(lowest, position)
        }
    }

    // MARK: - 4: what comes next

    /// Whether a mutation is of a type that was registered after its organization was read: by another replica, a moment
    /// ago.
    var lacksTypes: Bool {
        live.contains { step in
            guard let step, let head = step.head else { return false }
            return step.entry.types[head.entityType] == nil && step.entry.readAt < now
        }
    }

    /// Whether a head is sealed under a key that was made after its organization was read.
    var lacksKeys: Bool {
        live.contains { step in
            guard let step, case .unknownKey = step.sealedHead?.error else { return false }
            return step.entry.readAt < now
        }
    }

    /// Why heads cannot be opened.
    var sealed: [SealError] { live.compactMap { $0?.sealedHead?.error } }

    mutating func choose() {
        for index in live.indices {
            guard let step = live[index] else { continue }
            place(step)
            step.turn = turn(step)
        }
    }

    /// Brings the lane's head up to date with what was found.
    private mutating func place(_ step: Live) {
        if let sealed = step.sealedHead {
            step.lane.headPosition = min(sealed.position, step.lowestReleased ?? sealed.position)
            return
        }
        let first = step.head?.position ?? step.lane.nextPosition
        if step.head == nil, step.lowestReleased == nil, step.lane.queuedCount != 0 {
            if step.lane.headPosition > 0 {
                let text = "nothing pending from position \(step.lane.headPosition) on; looking at all of it"
                notes.append((step.job.lane, text))
                step.lane.headPosition = 0
                return
            }
            notes.append((step.job.lane, "\(step.lane.queuedCount) mutations were counted as queued, and none is"))
            step.lane.queuedCount = 0
        }
        step.lane.headPosition = min(first, step.lowestReleased ?? first)
        step.lane.queuedSince = step.head?.acceptedAt
    }

    private func turn(_ step: Live) -> LaneTurn {
        if !step.unfinished.isEmpty { return .goOn(token: step.lane.leaseToken, unblocking: step.unfinished) }
        if step.lane.headPosition == 0, step.head == nil, step.lane.queuedCount != 0 {
            return .goOn(token: step.lane.leaseToken, unblocking: [])
        }
        if let sealed = step.sealedHead, step.lane.haltedBy == nil {
            if let lowest = step.lowestReleased, lowest < sealed.position {
                return .goOn(token: step.lane.leaseToken, unblocking: [])
            }
            return release(step, at: now.adding(seconds: Self.pause))
        }
        guard let head = step.head, step.lane.haltedBy == nil else { return release(step, at: nil) }
        if let lowest = step.lowestReleased, lowest < head.position {
            return .goOn(token: step.lane.leaseToken, unblocking: [])
        }
        guard let organization = step.entry.organization, organization.status == .active,
            let type = step.entry.type(head.entityType)
        else { return release(step, at: now.adding(seconds: Self.pause)) }
        let surroundings = TurnPlanner.Surroundings(
            lane: step.job.lane,
            token: step.lane.leaseToken,
            leasedUntil: step.lane.readyAt ?? now,
            organization: organization,
            type: type,
            mappings: step.mappings,
            entity: step.entity
        )
        switch planner.decide(head, surroundings, now: now, heldUntil: step.job.heldUntil) {
        case .hold(let until): return release(step, at: until)
        case .fail(let outcome): return decide(step, Settled(mutation: head, outcome: outcome, version: nil))
        case .conflict(let outcome, let version):
            return decide(step, Settled(mutation: head, outcome: outcome, version: version))
        case .run(let dispatch):
            if step.job.releases { return release(step, at: now) }
            step.dispatch = dispatch
            step.lane.inFlight = head.id
            return .run(dispatch)
        }
    }

    /// Ends a turn in which nothing is run.
    private func decide(_ step: Live, _ decided: Settled) -> LaneTurn {
        step.decided = decided
        let status = decided.outcome.status
        if !status.isQueued { step.lane.queuedCount -= 1 }
        if status.isFinal { step.lane.openCount -= 1 }
        if step.entry.organization?.settings.halts(at: status) ?? false { step.lane.haltedBy = decided.id }
        let unblocking = decided.outcome.satisfiesDependants ? [decided.id] : []
        return .goOn(token: step.lane.leaseToken, unblocking: unblocking)
    }

    private func release(_ step: Live, at moment: Timestamp?) -> LaneTurn {
        step.lane.leaseOwner = nil
        step.lane.readyAt = moment
        return .released(readyAt: moment)
    }

    // MARK: - 5: write

    var finalQueries: [Query] {
        get throws(SealError) { try makeFinalQueries() }
    }

    private func makeFinalQueries() throws(SealError) -> [Query] {
        var outcomes: [OutcomeRow] = []
        var mappings: [MappingOutcomeRow] = []
        var flights: [FlightRow] = []
        for step in live.compactMap({ $0 }) {
            if let decided = step.decided {
                outcomes.append(try outcome(decided, of: step, from: .pending))
                if let row = MappingOutcomeRow(step.job.lane, decided.mutation, decided.outcome, step.lane, seals) {
                    mappings.append(row)
                }
            }
            if let dispatch = step.dispatch { flights.append(FlightRow(dispatch: dispatch)) }
        }
        let lanes = live.compactMap { $0.map { LaneRow(key: $0.job.lane, state: $0.lane) } }
        guard !lanes.isEmpty else { return [.rollback] }
        var queries: [Query] = []
        if !outcomes.isEmpty { queries.append(OutcomeRow.query(outcomes, now)) }
        if !mappings.isEmpty { queries.append(MappingOutcomeRow.query(mappings, now)) }
        if !flights.isEmpty { queries.append(FlightRow.query(flights, now)) }
        queries.append(LaneRows.write(lanes))
        let writes = entities.keys.sorted().map { (organization: $0, writes: entities[$0]?.writes ?? []) }
            .filter { !$0.writes.isEmpty }
        if !writes.isEmpty {
            queries.append(EntityRows.raiseFeeds(writes))
            queries += try EntityRows.write(writes, now: now, seals)
        }
        return queries + [.commit]
    }

    /// What each step is answered with.
    var turns: [LaneTurn] { live.map { $0?.turn ?? .lost } }

    /// Lanes that were changed.
    var changedLanes: [LaneKey] { live.compactMap { $0?.job.lane } }
}

extension Catalog.Entry {
    /// A type that mutations have; one that an operator has not declared was registered at its first use.
    fileprivate func type(_ name: String) -> EntityType? {
        types[name] ?? EntityType(firstUseOf: name, hasUpstream: organization?.upstream != nil)
    }
}
