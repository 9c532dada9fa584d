import FoundationEssentials
import JSONText

/// Decides the results that a push would have now, and the requests that it would send. This type does no I/O.
///
/// The preview uses ``PushPlanner``, and ``DispatchPlanner`` for the requests. These planners need ids that only the
/// push itself would generate, and the preview invents such ids. No answer contains an invented id: in a mutation's
/// result, the server id is missing, and in all other places the client id replaces the invented id.
public struct PreviewPlanner {
    private let push: PushRequest
    let snapshot: PushSnapshot
    let context: PushPlanner.Context
    let entities: EntityTable
    private let plan: PushPlan
    /// The client's ids of new entities, by the server id that the preview invented for the entity.
    private let madeUp: [UUID: ServerID]
    /// The planner for the requests that would be sent.
    ///
    /// The length of the lease is arbitrary, because it affects only the time-out of a request, which a preview does
    /// not show. The size of a single body is not limited here, because the total size of all requests in a preview is
    /// limited.
    let turns = DispatchPlanner(leaseSeconds: 120, bodyLimit: .max)

    /// Plans a push without executing it.
    ///
    /// - Parameters:
    ///   - snapshot: the stored data. Every key in the push must have been looked up.
    ///   - context: the context of the push. Its `makeID` generates ids that are not in use. No client sees these ids.
    ///   - entities: the organization's current entities.
    public static func preview(
        _ push: PushRequest,
        snapshot: PushSnapshot,
        context: PushPlanner.Context,
        entities: EntityTable
    ) throws(PushRefusal) -> PushPreview {
        var entities = entities
        let plan = try PushPlanner.plan(push, snapshot: snapshot, context: context, entities: &entities)
        return try PreviewPlanner(push, snapshot, context, entities, plan).preview()
    }

    private init(
        _ push: PushRequest,
        _ snapshot: PushSnapshot,
        _ context: PushPlanner.Context,
        _ entities: EntityTable,
        _ plan: PushPlan
    ) {
        self.push = push
        self.snapshot = snapshot
        self.context = context
        self.entities = entities
        self.plan = plan
        // a new mapping has a server id only if its create took effect in the built-in store; in a preview, this server
        // id is invented
        let made = plan.mappings.compactMap { new in
            new.mapping.serverID?.uuid.map { ($0, snapshot.localIDs.standIn(for: new.mapping.clientID)) }
        }
        madeUp = Dictionary(made) { first, _ in first }
    }

    /// - Throws: `payload_too_large` if the total size of requests and conflicts exceeds the limit for the answer to a
    ///   preview.
    private func preview() throws(PushRefusal) -> PushPreview {
        var turns: [UUID: (request: PreviewedRequest?, conflict: [UInt8]?)] = [:]
        var room = WorkBounds.preview
        var conflicting: Set<EntityKey> = []
        let indices = Dictionary(
            push.entries.compactMap { entry in entry.mutation.map { (ObjectIdentifier($0), entry.index) } }
        ) { first, _ in first }
        for new in plan.mutations {
            let references = indices[ObjectIdentifier(new.mutation)].map(snapshot.localIDs.references) ?? []
            guard var turn = turn(of: new, references) else { continue }
            // an answer contains a large entity only once
            if let conflict = turn.conflict, conflict.count > WorkBounds.small, let outline = CurrentOutline(conflict),
                !conflicting.insert(outline.key).inserted
            {
                turn.conflict = CurrentOutline.cut(conflict, place: nil)
            }
            room -= (turn.conflict?.count ?? 0) + (turn.request?.shownBytes ?? 0)
            guard room >= 0 else {
                let detail =
                    "the requests of this push have more than \(WorkBounds.preview) bytes; preview fewer mutations"
                throw .problem(Problem(.payloadTooLarge, detail))
            }
            // the body is rendered only here, after the limit on the total size was checked
            let request = turn.request.map { PreviewedRequest($0, unresolved: turn.unresolved) }
            turns[new.mutation.id] = (request, turn.conflict)
        }
        return PushPreview(
            acceptedSequence: plan.acceptedSequence,
            results: zip(push.entries, plan.verdicts).map { entry, verdict in
                let isNew = if case .accepted = verdict { true } else { false }
                let turn = isNew ? entry.id.flatMap { turns[$0] } : nil
                return PushPreview.Result(
                    entry: entry,
                    verdict: shown(verdict),
                    request: turn?.request,
                    conflict: turn?.conflict,
                    warning: plan.warnings[entry.index]
                )
            },
            mappings: plan.touchedMappings.filter { !isMadeUp($0.serverID) }
        )
    }

    // MARK: - Ids that no client sees

    private func isMadeUp(_ id: ServerID?) -> Bool {
        id?.uuid.map { madeUp[$0] != nil } ?? false
    }

    private func shown(_ verdict: PushVerdict) -> PushVerdict {
        guard !madeUp.isEmpty else { return verdict }
        switch verdict {
        case .accepted(let record): return .accepted(shown(record))
        case .replayed(let record): return .replayed(shown(record))
        case .rejected, .rejectedBefore: return verdict
        }
    }

    private func shown(_ record: MutationRecord) -> MutationRecord {
        guard isMadeUp(record.entity.serverID) || record.error != nil else { return record }
        return record.with { parts in
            if isMadeUp(parts.entity.serverID) { parts.entity = parts.entity.with(nil as ServerID?) }
            // a conflict may contain an entity that this push would create or change
            parts.response.error = parts.response.error.map { error in
                let root = try? JSONTree(parsing: error, limits: .widest).root
                return root?.rewritten { madeUp[$0]?.replacement } ?? error
            }
        }
    }
}

/// Plans the requests that mutations would send if they ran now.
extension PreviewPlanner {
    /// The result that a mutation would have if it ran now.
    struct PreviewStep {
        var request: UpstreamRequest?
        /// The client ids in the request that have no server ids yet, including local ids (entities' numbers on one
        /// device).
        var unresolved: [ServerID] = []
        /// The conflict that the gateway would detect before it sends a request; nil without a conflict.
        ///
        /// A problem object as JSON.
        var conflict: [UInt8]?
    }

    /// Plans the request of a new mutation; nil for a mutation that is not forwarded, or that could not be sent.
    ///
    /// - Parameter related: the local ids in the mutation's relations.
    func turn(of new: NewMutation, _ related: [LocalReference]) -> PreviewStep? {
        let mutation = new.mutation
        guard let type = context.type(mutation.entity.type), type.isForwarded else { return nil }
        var mappings = resolved(new)
        var unknown = Set(new.references.map(\.clientID).filter { mappings[$0] == nil })
        // in the preview, an unresolved local id remains unchanged
        for id in unknown {
            guard let own = snapshot.localIDs.named[id] else { continue }
            mappings[id] = [standIn(for: id, of: own.entityType)]
        }
        if let own = mutation.entity.clientID {
            unknown.remove(own)
            if mutation.operation != .create, new.record.entity.serverID == nil {
                // the client id takes the place of the server id, as in a create
                mappings[own] = [standIn(for: own, of: type.name)]
                unknown.insert(own)
            }
        }
        var surroundings = DispatchPlanner.LaneContext(
            lane: LaneKey(organization: context.organization.id, user: context.user),
            token: 0,
            leasedUntil: context.now,
            organization: context.organization,
            type: type,
            mappings: mappings,
            entity: new.record.entity.serverID.flatMap { entities[EntityKey(type: type.name, id: $0.text)] }
        )
        surroundings.access = entities.access
        // the preview shows the request that is sent after the pause
        surroundings.organization.upstream?.pause = nil
        // the mutation on which this mutation depends may change the channels
        if new.record.status == .blocked { surroundings.type.checksChannels = false }
        var turn = PreviewStep()
        var queued = QueuedMutation(new)
        var decision = turns.decide(queued, surroundings, now: context.now, heldUntil: nil)
        if case .conflict(let outcome, _) = decision {
            if new.record.status == .blocked {
                // a conflict with the present version has no meaning, because the mutation on which this mutation
                // depends will change the entity's version
                surroundings.entity = nil
            } else {
                turn.conflict = outcome.error
                guard outcome.override != nil else { return turn }
                queued.take(outcome)
            }
            decision = turns.decide(queued, surroundings, now: context.now, heldUntil: nil)
        }
        guard case .run(let dispatch) = decision, case .upstream(let request, _) = dispatch.destination else {
            return turn.conflict == nil ? nil : turn
        }
        let named = mutation.namedIDs + related.map(\.clientID)
        var seen: Set<UUID> = []
        let unresolved = named.filter { unknown.contains($0) && seen.insert($0).inserted }
        (turn.request, turn.unresolved) = (request, unresolved.map(snapshot.localIDs.standIn))
        return turn
    }

    private func standIn(for id: UUID, of type: String) -> DispatchPlanner.ResolvedID {
        DispatchPlanner.ResolvedID(entityType: type, serverID: snapshot.localIDs.standIn(for: id))
    }

    private func resolved(_ new: NewMutation) -> [UUID: [DispatchPlanner.ResolvedID]] {
        var mappings: [UUID: [DispatchPlanner.ResolvedID]] = [:]
        for name in new.references {
            guard let known = snapshot.mapping(name), known.status == .resolved, let id = known.serverID else {
                continue
            }
            mappings[name.clientID] = [DispatchPlanner.ResolvedID(entityType: name.entityType, serverID: id)]
        }
        return mappings
    }
}

extension Mutation {
    /// The client ids that a request can contain: the UUIDs in the endpoint and the payload, without duplicates.
    ///
    /// The entity's own client id is included if the endpoint contains `{local_id}`, or if there is no endpoint,
    /// because a route may contain the entity's id.
    fileprivate var namedIDs: [UUID] {
        guard let own = entity.clientID, endpoint?.text.contains("{local_id}") ?? true else { return references }
        return [own] + references.filter { $0 != own }
    }
}

extension PushLocalIDs {
    /// The id that the client uses, which a preview shows in place of an unknown or invented permanent id.
    func standIn(for clientID: UUID) -> ServerID {
        named[clientID].map { ServerID($0.number) } ?? ServerID(clientID)
    }
}
