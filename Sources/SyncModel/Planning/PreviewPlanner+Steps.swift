import Foundation

/// The requests that mutations would send if it were their turn.
extension PreviewPlanner {
    /// The result of a mutation's turn if it were now.
    struct PreviewStep {
        var request: PreviewedRequest?
        /// The conflict that the turn would meet before anything is sent.
        ///
        /// A problem object as JSON.
        var conflict: [UInt8]?
    }

    /// Nil for a mutation that is not forwarded, and for one that could not be sent.
    ///
    /// - Parameter related: the device ids in its relations.
    func turn(of new: NewMutation, _ related: [LocalReference]) -> PreviewStep? {
        let mutation = new.mutation
        guard let type = context.type(mutation.entity.type), type.isForwarded else { return nil }
        var mappings = resolved(new)
        var unknown = Set(new.references.map(\.clientID).filter { mappings[$0] == nil })
        // an unresolved device id is its own replacement
        for id in unknown {
            guard let own = snapshot.localIDs.named[id] else { continue }
            mappings[id] = [standIn(for: id, of: own.entityType)]
        }
        if let own = mutation.entity.clientID {
            unknown.remove(own)
            if mutation.operation != .create, new.record.entity.serverID == nil {
                // its client id represents it, as a create's does
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
        var turn = PreviewStep()
        var queued = QueuedMutation(new)
        var decision = turns.decide(queued, surroundings, now: context.now, heldUntil: nil)
        if case .conflict(let outcome, _) = decision {
            if new.record.status == .blocked {
                // the mutation that it waits for writes the entity first, which then has another version
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
        turn.request = PreviewedRequest(
            request,
            unresolved: unresolved.map(snapshot.localIDs.standIn)
        )
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
    /// Every UUID in endpoint and payload, `{local_id}` included, once each.
    fileprivate var namedIDs: [UUID] {
        guard let own = entity.clientID, endpoint?.text.contains("{local_id}") ?? false else { return references }
        return [own] + references.filter { $0 != own }
    }
}

extension PushLocalIDs {
    /// The client's own name, which a preview shows in place of a permanent id.
    ///
    /// That id is unknown or was made up.
    func standIn(for clientID: UUID) -> ServerID {
        named[clientID].map { ServerID($0.number) } ?? ServerID(clientID)
    }
}
