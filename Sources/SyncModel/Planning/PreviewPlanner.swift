import Foundation
import JSONText

/// Decides what a push would come to if it came now, by the planners that decide about pushes and turns, and what would
/// be sent. Pure.
///
/// Ids that only the push itself would make are made up, so that the rules can run, and never shown: a result has none,
/// and wherever else one would stand there is the client id.
package struct PreviewPlanner {
    private let push: PushRequest
    private let snapshot: PushSnapshot
    private let context: PushPlanner.Context
    private let entities: EntityTable
    private let plan: PushPlan
    /// Client ids, or ids of the device, by the ids that were made up for them.
    private let madeUp: [UUID: ServerID]
    /// Nothing hangs on the lease: it bounds the time that a request may take, which nobody is told.
    private let turns = TurnPlanner(leaseSeconds: 120)

    /// Plans a push, and nothing comes of it.
    ///
    /// - Parameters:
    ///   - snapshot: with every key looked up.
    ///   - context: `makeID` makes ids that nobody has, and that nobody will be shown.
    ///   - entities: the organization's entities, as they stand.
    package static func preview(
        _ push: PushRequest,
        snapshot: PushSnapshot,
        context: PushPlanner.Context,
        entities: EntityTable
    ) throws(PushRefusal) -> PushPreview {
        var entities = entities
        let plan = try PushPlanner.plan(push, snapshot: snapshot, context: context, entities: &entities)
        return PreviewPlanner(push, snapshot, context, entities, plan).preview
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
        // a new mapping has a server id when its create took effect in the built-in store, which has just made it
        let made = plan.mappings.compactMap { new in new.mapping.serverID?.uuid.map { ($0, new.mapping.standIn) } }
        madeUp = Dictionary(made) { first, _ in first }
    }

    private var preview: PushPreview {
        var turns: [UUID: Turn] = [:]
        let indices = Dictionary(
            push.entries.compactMap { entry in entry.mutation.map { (ObjectIdentifier($0), entry.index) } }
        ) { first, _ in first }
        for new in plan.mutations {
            let references = indices[ObjectIdentifier(new.mutation)].map(snapshot.localIDs.references) ?? []
            turns[new.mutation.id] = turn(of: new, references)
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

    // MARK: - Ids that nobody is shown

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
        guard isMadeUp(record.serverID) || record.error != nil else { return record }
        return record.replacing(
            serverID: isMadeUp(record.serverID) ? nil : record.serverID,
            // what a conflict shows may be an entity that this push has made or changed
            error: record.error.map { error in
                let root = try? JSONTree(parsing: error, limits: .widest).root
                return root?.rewritten { madeUp[$0]?.replacement } ?? error
            }
        )
    }

    // MARK: - Requests

    /// What a mutation's turn would come to if it were now.
    private struct Turn {
        /// What would be sent.
        var request: PreviewedRequest?
        /// What it would be in conflict with before anything is sent: a problem object as JSON.
        var conflict: [UInt8]?
    }

    /// What its turn would come to now; nil for what is not forwarded and for what could not be sent.
    ///
    /// - Parameter related: what stands in its relations.
    private func turn(of new: NewMutation, _ related: [LocalReference]) -> Turn? {
        let mutation = new.mutation
        guard let type = context.type(mutation.entityType), type.isForwarded else { return nil }
        var mappings = resolved(new)
        var unknown = Set(new.references.filter { mappings[$0] == nil })
        // an id of the device stands for itself where it leads nowhere yet
        for id in unknown {
            guard let own = snapshot.localIDs.named[id] else { continue }
            mappings[id] = [TurnPlanner.ResolvedID(entityType: own.entityType, serverID: own.standIn)]
        }
        if mutation.operation != .create, new.record.serverID == nil, let localID = mutation.localID {
            // its client id stands for it, as a create's does
            let standIn = snapshot.localIDs.named[localID]?.standIn ?? ServerID(localID)
            mappings[localID] = [TurnPlanner.ResolvedID(entityType: mutation.entityType, serverID: standIn)]
            unknown.insert(localID)
        } else if let localID = mutation.localID {
            unknown.remove(localID)
        }
        var surroundings = TurnPlanner.Surroundings(
            lane: LaneKey(organization: context.organization.id, user: context.user),
            token: 0,
            leasedUntil: context.now,
            organization: context.organization,
            type: type,
            mappings: mappings,
            entity: new.record.serverID.flatMap { entities[EntityKey(type: type.name, id: $0.text)] }
        )
        var turn = Turn()
        var queued = new.queued
        var decision = turns.decide(queued, surroundings, now: context.now, heldUntil: nil)
        if case .conflict(let outcome, _) = decision {
            if new.record.status == .blocked {
                // what it waits for writes the entity first, and then it stands at another version
                surroundings.entity = nil
            } else {
                turn.conflict = outcome.error
                guard outcome.override != nil else { return turn }
                queued = queued.overridden(by: outcome)
            }
            decision = turns.decide(queued, surroundings, now: context.now, heldUntil: nil)
        }
        guard case .run(let dispatch) = decision, case .upstream(let request, _) = dispatch.destination else {
            return turn.conflict == nil ? nil : turn
        }
        let named = mutation.namedIDs + related.map(\.clientID)
        var seen: Set<UUID> = []
        let unresolved = named.filter { unknown.contains($0) && seen.insert($0).inserted }
        turn.request = PreviewedRequest(
            request,
            unresolved: unresolved.map { snapshot.localIDs.named[$0]?.standIn ?? ServerID($0) }
        )
        return turn
    }

    private func resolved(_ new: NewMutation) -> [UUID: [TurnPlanner.ResolvedID]] {
        var mappings: [UUID: [TurnPlanner.ResolvedID]] = [:]
        for (id, type) in zip(new.references, new.referenceTypes) {
            let known = (snapshot.mappings[id] ?? []).filter { $0.status == .resolved && $0.entityType == type }
            let resolved = known.compactMap { mapping in
                mapping.serverID.map { TurnPlanner.ResolvedID(entityType: mapping.entityType, serverID: $0) }
            }
            if !resolved.isEmpty { mappings[id] = resolved }
        }
        return mappings
    }
}

extension LocalID {
    /// What a preview shows where a permanent id would stand that is not known.
    fileprivate var standIn: ServerID { ServerID(text: String(number), isInteger: true) }
}

extension IDMapping {
    /// What a preview shows in the place of an id that was made up.
    fileprivate var standIn: ServerID {
        localNumber.map { LocalID(entityType: entityType, number: $0).standIn } ?? ServerID(clientID)
    }
}

extension Mutation {
    /// Every UUID in endpoint and payload, `{local_id}` included, once each.
    fileprivate var namedIDs: [UUID] {
        guard let localID, endpoint?.text.contains("{local_id}") ?? false else { return references }
        return [localID] + references.filter { $0 != localID }
    }
}

extension QueuedMutation {
    /// The mutation as it has its way over a conflict.
    fileprivate func overridden(by outcome: Outcome) -> QueuedMutation {
        QueuedMutation(
            id: id,
            deviceID: deviceID,
            position: position,
            acceptedAt: acceptedAt,
            operation: operation,
            entityType: entityType,
            localID: localID,
            localNumber: localNumber,
            serverID: serverID,
            endpoint: endpoint,
            payload: payload,
            headers: headers,
            baseVersion: baseVersion,
            references: references,
            revision: outcome.revision,
            attemptCount: attemptCount,
            maxAttempts: maxAttempts,
            nextRetryAt: nil,
            strategy: strategy,
            resolution: outcome.resolution,
            isOutcomeUnknown: false,
            conflictRetries: 0,
            override: outcome.override,
            error: outcome.error,
            traceparent: traceparent
        )
    }
}

extension NewMutation {
    /// The mutation as it will wait for its turn.
    fileprivate var queued: QueuedMutation {
        QueuedMutation(
            id: mutation.id,
            deviceID: record.deviceID,
            position: record.position,
            acceptedAt: record.acceptedAt,
            operation: mutation.operation,
            entityType: mutation.entityType,
            localID: mutation.localID,
            localNumber: mutation.localNumber,
            serverID: record.serverID,
            endpoint: mutation.endpoint?.text,
            payload: mutation.payload.map { Array($0.raw) },
            headers: mutation.headers.map { Array($0.raw) },
            baseVersion: mutation.baseVersion,
            references: references,
            referenceTypes: Dictionary(zip(references, referenceTypes)) { first, _ in first },
            revision: record.revision,
            attemptCount: record.attemptCount,
            maxAttempts: mutation.maxAttempts,
            nextRetryAt: nil,
            strategy: conflictResolution,
            resolution: nil,
            isOutcomeUnknown: false,
            conflictRetries: 0,
            override: nil,
            error: nil,
            traceparent: nil
        )
    }
}

extension MutationRecord {
    /// The same with another server id and error.
    fileprivate func replacing(serverID: ServerID?, error: [UInt8]?) -> MutationRecord {
        MutationRecord(
            id: id,
            idempotencyKey: idempotencyKey,
            deviceID: deviceID,
            sequenceNumber: sequenceNumber,
            position: position,
            operation: operation,
            entityType: entityType,
            status: status,
            revision: revision,
            localID: localID,
            localNumber: localNumber,
            serverID: serverID,
            version: version,
            etag: etag,
            attemptCount: attemptCount,
            nextRetryAt: nextRetryAt,
            dependsOn: dependsOn,
            resolution: resolution,
            responseStatus: responseStatus,
            responseBody: responseBody,
            error: error,
            lastError: lastError,
            fingerprint: fingerprint,
            acceptedAt: acceptedAt,
            syncedAt: syncedAt
        )
    }
}
