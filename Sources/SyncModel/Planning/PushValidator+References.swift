import FoundationEssentials
import JSONText

/// The dependencies of an entry (product rule 3).
///
/// An entry depends on the mutations that it lists, and on the creates of the client ids in its content.
extension PushValidator {
    func judgeDependencies(rank: Int, in judged: inout ValidatedMutation) throws(Problem) {
        for (place, id) in judged.mutation.dependencyIDs.enumerated() {
            let pointer = "/dependency_ids/\(place)"
            guard id != judged.mutation.id else {
                throw at(judged.index, pointer, Rule.dependencies, "a mutation cannot depend on itself")
            }
            if let known = snapshot.knownByID[id] {
                if known.status == .discarded, !known.satisfiesDependants {
                    throw dependencyRejected(judged.index, pointer)
                }
                if !known.satisfiesDependants { judged.stored.append(id) }
            } else if let entry = acceptedByID[id] {
                judged.wait(forEntry: entry)
            } else if rejectedIDs.contains(id) {
                throw dependencyRejected(judged.index, pointer)
            } else if let later = rankOfMutation[id], later > rank {
                throw at(judged.index, pointer, Rule.dependencies, "refers to a mutation that runs later in this push")
            } else if try refer(to: id, pointer, rank: rank, in: &judged) == nil {
                let isOwn = id == judged.mutation.created?.clientID
                let detail =
                    isOwn ? "a create cannot depend on itself" : "is not a known mutation or client id"
                throw at(judged.index, pointer, Rule.dependencies, detail)
            }
        }
    }

    func judgeReferences(rank: Int, in judged: inout ValidatedMutation) throws(Problem) {
        for id in judged.mutation.references where judged.references[id] == nil {
            // the mutation's own client id is not a dependency
            if id == judged.mutation.entity.clientID { continue }
            _ = try refer(to: id, "/payload", rank: rank, in: &judged)
        }
        let index = judged.index
        if snapshot.localIDs.crowded.contains(index) {
            let detail =
                "the relations of a push may contain \(PushLocalIDs.limit) ids; send this in another push, with a "
                + "higher number"
            throw at(index, "/payload", Rule.range, detail)
        }
        for reference in snapshot.localIDs.references(of: index) where judged.references[reference.clientID] == nil {
            let pointer = "/payload" + reference.place.pointer
            if reference.clientID == judged.mutation.entity.clientID {
                guard judged.type.isForwarded, judged.mutation.operation == .create else { continue }
                let detail =
                    "refers to the entity that this mutation creates, to which the API has not assigned an id yet"
                throw at(index, pointer, Rule.dependencies, detail)
            }
            guard try refer(to: reference.clientID, pointer, rank: rank, in: &judged) == nil else { continue }
            throw at(index, pointer, Rule.entityReference, Self.unknown(reference.id))
        }
    }

    /// The error text for an unknown local id.
    ///
    /// The entry is refused, because an integer in the place of a local id, unlike a UUID, cannot be data.
    static func unknown(_ id: LocalID) -> String {
        "unknown local id \(id.number) of type '\(id.entityType)': this device neither created it nor"
            + " received it in a pull"
    }

    /// The description of a client id in messages to the client.
    private func name(of id: UUID) -> String {
        snapshot.localIDs.named[id].map { "local id \($0.number)" } ?? "client id \(id.lowercased)"
    }

    /// Resolves a client id of this user; nil if the id is only data.
    private func refer(
        to id: UUID,
        _ pointer: String,
        rank: Int,
        in judged: inout ValidatedMutation
    ) throws(Problem) -> ValidatedMutation.Target? {
        let known = snapshot.mappings[id] ?? []
        let stored = known.filter { !$0.isAbandoned }
        // an entry does not wait for its own create
        let here = creates.all(of: id).filter { create in
            create.rank != rank && !stored.contains { $0.entityType == create.type }
        }
        guard !known.isEmpty || !here.isEmpty else { return nil }
        let named = here.map { (create: ClientReference(clientID: id, entityType: $0.type), rank: $0.rank) }
        let earlier = named.filter { createdBy[$0.create] != nil }
        let refused = named.contains { rejectedCreates.contains($0.create) && $0.rank <= rank }
        let types = Set(stored.map(\.entityType)).union(earlier.map(\.create.entityType))
        guard types.count <= 1 else {
            throw .ambiguous(name(of: id), types, at: "/mutations/\(judged.index)" + pointer)
        }
        let (target, type): (ValidatedMutation.Target, String)
        if let mapping = stored.first {
            (target, type) = (self.target(mapping, in: &judged), mapping.entityType)
        } else if let create = earlier.first?.create, let entry = createdBy[create] {
            (target, type) = (.entry(entry), create.entityType)
            judged.wait(forEntry: entry)
        } else if refused || !here.contains(where: { $0.rank > rank }) {
            // the earlier create is neither accepted nor refused, therefore it repeats a discarded create
            throw dependencyRejected(judged.index, pointer)
        } else {
            let detail = "\(name(of: id)) is created later in this push; move the create before its first use"
            throw at(judged.index, pointer, Rule.dependencies, detail)
        }
        judged.refer(to: id, of: type, target)
        return target
    }

    func target(_ mapping: IDMapping, in judged: inout ValidatedMutation) -> ValidatedMutation.Target {
        if mapping.status == .resolved, let serverID = mapping.serverID { return .server(serverID) }
        judged.wait(for: mapping.mutationID)
        return .mutation(mapping.mutationID)
    }

    // MARK: - Problems

    func at(_ index: Int, _ pointer: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.validationFailed, pointer: "/mutations/\(index)" + pointer, rule: rule, detail)
    }

    func dependencyRejected(_ index: Int, _ pointer: String) -> Problem {
        Problem(
            .dependencyRejected,
            pointer: "/mutations/\(index)" + pointer,
            rule: Rule.dependencies,
            "depends on a mutation that was rejected or discarded; correct that mutation and send both again"
        )
    }
}

/// Evaluates the entity of an entry: its type and its ids (product rules 1, 3 and 9).
extension PushValidator {
    func entityType(of mutation: Mutation, index: Int) throws(Problem) -> EntityType {
        guard let type = types(mutation.entity.type) else {
            let detail = "'\(mutation.entity.type)' is not a registered entity type of this organization"
            throw at(index, "/entity_type", Rule.entityType, detail)
        }
        return type
    }

    /// Checks the headers of a new mutation. The caller has already determined, by the idempotency key, that the
    /// mutation is no repeat.
    ///
    /// Repeats are not checked: a repeat gets its first answer even if the operator has changed the list of headers
    /// since.
    func judgeHeaders(of mutation: Mutation, index: Int) throws(Problem) {
        guard let headers = mutation.headers else { return }
        var errors = EntryErrors(limit: errorAllowance.nextEntry)
        for error in HeaderRules.refused(headers, by: upstream, pointer: "/mutations/\(index)/headers") {
            errors.append(error)
        }
        if !errors.isEmpty { throw errors.problem(or: "a header is not allowed") }
    }

    func judgeIdentity(of mutation: Mutation, in judged: inout ValidatedMutation) throws(Problem) {
        let index = judged.index
        if judged.type.isForwarded {
            if mutation.endpoint == nil, judged.type.routes?.has(mutation.operation) != true {
                let detail =
                    "endpoint is required: '\(mutation.entity.type)' is replayed against the organization's API, and has "
                    + "no route for \(mutation.operation.rawValue)"
                throw at(index, "/endpoint", Rule.required, detail)
            }
        }
        do throws(ContentRules.Violation) {
            try ContentRules.checkPayload(mutation.payload, of: mutation.operation, in: judged.type)
        } catch {
            throw at(index, "/payload" + error.pointer, error.rule, error.detail)
        }
        switch judged.type.idSpace {
        case .shared: try judgeSharedID(of: mutation, index: index)
        case .mapped, .device: try judgeMappedID(of: mutation, in: &judged)
        }
        dependOnEarlierWrites(of: mutation, in: &judged)
    }

    private func judgeSharedID(of mutation: Mutation, index: Int) throws(Problem) {
        if mutation.entity.client != nil {
            let detail = "'\(mutation.entity.type)' has shared global ids: use server_id and omit local_id"
            throw at(index, "/local_id", Rule.clientID, detail)
        }
        guard let id = mutation.entity.serverID else {
            throw at(index, "/server_id", Rule.required, "server_id is required: the entity's global id")
        }
        guard id.isInteger || id.uuid != nil else {
            throw at(index, "/server_id", Rule.serverID, "a shared global id must be a UUID or an integer")
        }
    }

    /// Evaluates the client id or local id of an entry's entity. A created entity gets its permanent id later.
    private func judgeMappedID(of mutation: Mutation, in judged: inout ValidatedMutation) throws(Problem) {
        let index = judged.index
        let entity = mutation.entity
        try checkForm(of: entity, in: judged)
        guard mutation.operation == .create else {
            guard let client = entity.client else {
                guard entity.serverID == nil else { return }
                let detail = "local_id or server_id is required"
                throw at(index, "/local_id", Rule.required, detail)
            }
            return try judgeTarget(client, of: mutation, in: &judged)
        }
        guard let client = entity.client, let created = entity.reference else {
            throw at(index, "/local_id", Rule.clientID, "local_id is required: the client id of the new entity")
        }
        if let id = entity.serverID { try judgeFormerID(id, in: judged) }
        guard snapshot.usableMapping(created) == nil, createdBy[created] == nil else {
            let name =
                switch client {
                case .id: "this client id"
                case .number(let number, _): "local id \(number)"
                }
            let detail = "\(name) was created before in '\(entity.type)'; use a new one"
            throw at(index, "/local_id", Rule.uniqueClientID, detail)
        }
    }

    /// Evaluates a permanent id in a create.
    ///
    /// Such an id is permitted only for an entity of the built-in store. After a restore from a backup, a device may
    /// send the create again with the id that the entity had before the restore.
    private func judgeFormerID(_ id: ServerID, in judged: ValidatedMutation) throws(Problem) {
        let reason =
            judged.type.isForwarded
            ? "must be null on a create: the upstream assigns it"
            : id.uuid == nil ? "of a create must be a UUID: the id that the entity had before a restore" : nil
        if let reason { throw at(judged.index, "/server_id", Rule.serverID, "server_id \(reason)") }
    }

    private func checkForm(of entity: EntityName, in judged: ValidatedMutation) throws(Problem) {
        guard let client = entity.client else { return }
        switch (judged.type.idSpace, client) {
        case (.device, .number), (.mapped, .id), (.shared, _): return
        case (.device, .id):
            let detail = "'\(entity.type)' has device ids: local_id must be a 64-bit integer assigned by this device"
            throw at(judged.index, "/local_id", Rule.clientID, detail)
        case (.mapped, .number):
            let detail = "local_id must be a UUID: '\(entity.type)' has no device ids"
            throw at(judged.index, "/local_id", Rule.clientID, detail)
        }
    }

    /// Evaluates an update, replace or delete that identifies its entity by the client id.
    private func judgeTarget(
        _ client: ClientName,
        of mutation: Mutation,
        in judged: inout ValidatedMutation
    ) throws(Problem) {
        let type = mutation.entity.type
        let name = ClientReference(clientID: client.id, entityType: type)
        if let mapping = snapshot.usableMapping(name) {
            if let given = mutation.entity.serverID, let known = mapping.serverID, given.text != known.text {
                let detail = "local_id and server_id name different entities"
                throw at(judged.index, "/server_id", Rule.entityReference, detail)
            }
            judged.refer(to: client.id, of: type, target(mapping, in: &judged))
        } else if let entry = createdBy[name] {
            judged.refer(to: client.id, of: type, .entry(entry))
            judged.wait(forEntry: entry)
        } else if rejectedCreates.contains(name) {
            throw dependencyRejected(judged.index, "/local_id")
        } else if let serverID = mutation.entity.serverID {
            judged.refer(to: client.id, of: type, .server(serverID))
        } else if snapshot.mapping(name) != nil {
            throw dependencyRejected(judged.index, "/local_id")
        } else {
            let detail =
                switch client {
                case .id: "no mutation created this client id in '\(type)'"
                case .number(let number, _): Self.unknown(LocalID(entityType: type, number: number))
                }
            throw at(judged.index, "/local_id", Rule.entityReference, detail)
        }
    }

    /// Makes a mutation depend on earlier mutations of the same entity (product rule 3).
    private func dependOnEarlierWrites(of mutation: Mutation, in judged: inout ValidatedMutation) {
        // a create with the client id of a discarded create makes a new entity; this create must not depend on stored
        // mutations of that client id, because those mutations may wait for this create
        guard mutation.namesKnownEntity else { return }
        let entity = known(mutation.entity)
        let (named, known) = writes.latest(of: entity)
        if let named { judged.wait(forEntry: named) }
        if let known { judged.wait(forEntry: known) }
        // waiting for the last write is sufficient, because that write depends on the earlier writes
        switch open.latest(of: entity) {
        case (let one?, let other?): judged.wait(for: one.position < other.position ? other.id : one.id)
        case (let last?, nil), (nil, let last?): judged.wait(for: last.id)
        case (nil, nil): break
        }
    }

    /// The entity with all of its known ids.
    ///
    /// An earlier write may have identified the entity by its server id, while this write uses its client id.
    func known(_ entity: EntityName) -> EntityName {
        guard entity.serverID == nil, let name = entity.reference else { return entity }
        return entity.with(snapshot.mapping(name)?.serverID)
    }
}
