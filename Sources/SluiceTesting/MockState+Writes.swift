import Foundation
import SluiceClient

/// Pushes, the effects of their mutations, and decisions about these mutations.
extension MockState {
    mutating func push(
        _ body: JSON,
        of user: String,
        _ onWrite: (JSON) -> MockGateway.Verdict?
    ) -> MockGateway.Response {
        guard let device = body["device_id"]?.string, let entries = body["mutations"]?.array else {
            return .init(status: 400, .problem(400, "invalid_request"))
        }
        let writer = Writer(user: user, device: device)
        let watermark = accepted[writer] ?? 0
        if let after = body["after_sequence"]?.int64, after > watermark {
            return .init(status: 409, .problem(409, "sequence_gap", "", ["expected": .integer(watermark)]))
        }
        var rejected: [Int: JSON] = [:]
        var refused: Set<ClientName> = []
        for (index, entry) in entries.enumerated() {
            guard let problem = take(entry, writer, watermark, refused, onWrite) else { continue }
            rejected[index] = [
                "id": entry["id"] ?? .null, "sequence_number": entry["sequence_number"] ?? .null,
                "idempotency_key": entry["idempotency_key"] ?? .null, "status": "rejected", "error": problem,
            ]
            let mutation = MockMutation(entry, by: writer)
            if mutation.operation == "create", let name = mutation.clientName { refused.insert(name) }
        }
        accepted[writer] = entries.compactMap { $0["sequence_number"]?.int64 }.reduce(watermark, max)
        run(user)
        let results = entries.enumerated().map { index, entry in
            rejected[index] ?? self.index(of: entry["id"]?.string ?? "", user).map { mutations[$0].result } ?? .null
        }
        return .init([
            "results": .array(results), "accepted_sequence": .integer(accepted[writer] ?? 0), "held_by": hold(of: user),
            "id_mappings": .array(mappings(of: entries, user)),
        ])
    }

    private func mappings(of entries: [JSON], _ user: String) -> [JSON] {
        entries.compactMap { entry in
            guard let clientID = entry["local_id"], let type = entry["entity_type"],
                let serverID = serverIDs[
                    ClientName(user: user, type: type.string ?? "", id: clientID.lowercased)
                ]
            else { return nil }
            return ["entity_type": type, "client_id": clientID, "server_id": serverID, "status": "resolved"]
        }
    }

    /// - Parameter refused: the client ids of refused creates in this push.
    /// - Returns: the reason for the refusal; nil if the entry is accepted or a repeat.
    private mutating func take(
        _ entry: JSON,
        _ writer: Writer,
        _ watermark: Int64,
        _ refused: Set<ClientName>,
        _ onWrite: (JSON) -> MockGateway.Verdict?
    ) -> JSON? {
        if isKnown(entry, of: writer.user) { return nil }
        guard entry["sequence_number"]?.int64 ?? 0 > watermark else { return .problem(422, "sequence_already_used") }
        var mutation = MockMutation(entry, by: writer)
        if refused.contains(where: mutation.needs) { return .problem(422, "dependency_rejected") }
        switch onWrite(entry) {
        case .reject(let code, let detail): return .problem(422, code, detail)
        case .fail(let status, let body): mutation.failure = (status, body)
        case nil: break
        }
        _ = add(mutation)
        return nil
    }

    // MARK: - Running

    /// Runs the user's open mutations in order, until a conflict stops the queue.
    mutating func run(_ user: String) {
        if holdsWrites || !hold(of: user).isNull { return }
        for index in mutations.indices where mutations[index].isOpen && mutations[index].writer.user == user {
            run(index)
            if mutations[index].status == "conflict" { return }
        }
    }

    private mutating func run(_ index: Int) {
        let mutation = mutations[index]
        let creates = mutations.filter { other in
            other.status != "succeeded" && other.writer.user == mutation.writer.user && other.operation == "create"
                && other.clientName.map { serverIDs[$0] == nil && mutation.needs($0) } ?? false
        }
        let needed = creates.filter { $0.status != "discarded" }
        if !needed.isEmpty {
            mutations[index].status = "blocked"
            mutations[index].blockedBy = needed.compactMap { $0.entry["id"] }
            return
        }
        mutations[index].blockedBy = []
        if let failure = mutation.failure {
            mutations[index].failure = nil
            return fail(index, failure.status, failure.body)
        }
        guard creates.isEmpty else {
            mutations[index].error = .problem(422, "dependency_rejected")
            return mutations[index].status = "failed"
        }
        let id = mutation.serverID ?? mutation.clientName.flatMap { serverIDs[$0] }
        switch mutation.operation {
        case "create": create(index, Name(type: mutation.type, id: id ?? .string(UUID.random().wire)))
        case "delete":
            let entity = id.flatMap { entities[Name(type: mutation.type, id: $0)] }
            guard let id, let entity, !entity.isDeleted else { return succeed(index, id, entity?.version, 204) }
            change(index, Name(type: mutation.type, id: id), entity)
        default:
            guard let id, let entity = entities[Name(type: mutation.type, id: id)] else {
                return fail(index, 404, .null)
            }
            change(index, Name(type: mutation.type, id: id), entity)
        }
    }

    private mutating func create(_ index: Int, _ name: Name) {
        let mutation = mutations[index]
        if let entity = entities[name], !(entity.isDeleted && entity.writer == mutation.writer), !mutation.isForced {
            return conflict(index, name, entity)
        }
        apply(index, name, document(mutation, creating: name.id))
        guard mutations[index].status == "succeeded", let client = mutation.clientName else { return }
        resolve(client, to: name.id)
    }

    private mutating func change(_ index: Int, _ name: Name, _ entity: Entity) {
        let mutation = mutations[index]
        let isCurrent =
            !entity.isDeleted && entity.accepts(mutation.entry["base_version"]?.int64, from: mutation.writer)
        // after a deletion, a patch would restore only the members that it changes
        let isPartial = entity.isDeleted && mutation.operation == "update" && !mutation.isWhole
        guard isCurrent || mutation.isForced && !isPartial else { return conflict(index, name, entity) }
        let document = document(mutation)
        let isPatch = mutation.operation == "update" && !entity.isDeleted
        apply(index, name, isPatch ? entity.document.merged(with: document) : document)
    }

    /// - Parameter id: the server id of the entity that the mutation creates. It replaces the client id in the
    ///   document.
    private func document(_ mutation: MockMutation, creating id: JSON? = nil) -> JSON {
        let own = id == nil ? nil : mutation.clientName?.id
        return resolved(mutation.payload ?? [:], of: mutation.writer.user).replacing { $0 == own ? id : nil }
    }

    private mutating func apply(_ index: Int, _ name: Name, _ document: JSON) {
        let mutation = mutations[index]
        let isDeletion = mutation.operation == "delete"
        if let broken = applyRelations(mutation, name, document) {
            // with the strategy `client_wins`, a write that breaks a relation is nevertheless a conflict
            let current = entities[name].map { self.current(name, $0) }
            let members: [String: JSON] = current.map { ["errors": [broken], "current": $0] } ?? ["errors": [broken]]
            mutations[index].error = .problem(409, "conflict", broken["detail"]?.string ?? "", members)
            mutations[index].response = ["status": 409, "body": .null]
            let givesWay = mutation.entry["conflict_resolution"]?.string == "server_wins" && current != nil
            return givesWay ? giveUp(index, name, "server_wins") : (mutations[index].status = "conflict")
        }
        let last = isDeletion ? entities[name]?.document ?? [:] : document
        write(name, last, isDeleted: isDeletion, by: mutation.writer, clientID: mutation.entry["local_id"])
        succeed(index, name.id, entities[name]?.version, mutation.operation == "create" ? 201 : isDeletion ? 204 : 200)
    }

    private mutating func succeed(_ index: Int, _ id: JSON?, _ version: Int64?, _ status: Int64) {
        mutations[index].status = "succeeded"
        mutations[index].serverID = id
        mutations[index].version = version
        mutations[index].response = ["status": .integer(status), "body": .null]
        if mutations[index].resolution == nil { mutations[index].error = nil }
    }

    private mutating func fail(_ index: Int, _ status: Int, _ body: JSON) {
        mutations[index].status = "failed"
        mutations[index].response = ["status": .integer(Int64(status)), "body": body]
        mutations[index].error = .problem(status, "upstream_rejected")
    }

    private mutating func conflict(_ index: Int, _ name: Name, _ entity: Entity) {
        mutations[index].error = .problem(409, "conflict", "", ["current": current(name, entity)])
        mutations[index].response = ["status": 409, "body": .null]
        switch mutations[index].entry["conflict_resolution"]?.string {
        case "server_wins": giveUp(index, name, "server_wins")
        case "client_wins" where mutations[index].operation != "create" && !entity.isDeleted:
            mutations[index].isForced = true
            mutations[index].resolution = "client_wins"
            run(index)
        default: mutations[index].status = "conflict"
        }
    }

    private mutating func giveUp(_ index: Int, _ name: Name?, _ resolution: String?) {
        mutations[index].status = "discarded"
        mutations[index].resolution = resolution
        mutations[index].blockedBy = []
        let entity = name.flatMap { name in entities[name].map { current(name, $0) } }
        if mutations[index].error == nil, entity != nil { mutations[index].error = .problem(409, "discarded") }
        if let entity { mutations[index].error?["current"] = entity }
        if resolution != nil { mutations[index].serverID = name?.id }
    }

    // MARK: - Decisions

    mutating func decide(_ id: String, _ action: String, _ body: JSON, of user: String) -> MockGateway.Response {
        guard let index = index(of: id, user) else { return .init(status: 404, .problem(404, "not_found")) }
        let status = mutations[index].status
        let isPossible =
            switch action {
            case "retry": ["failed", "conflict"].contains(status)
            case "discard": ["failed", "conflict", "pending", "blocked"].contains(status)
            case "resolve": status == "conflict"
            default: false
            }
        guard isPossible else { return .init(status: 409, .problem(409, "status_transition_must_be_valid")) }
        let name = name(of: index)
        let isOfDeleted = mutations[index].error?["current"]?["deleted"]?.bool ?? false
        switch (action, body["strategy"]?.string) {
        case ("discard", _):
            let dependents = dependents(of: index)
            guard dependents.isEmpty || body["dependents"] != nil else {
                return .init(status: 422, .problem(422, "validation_failed"))
            }
            giveUp(index, name, nil)
            if body["dependents"]?.string == "discard" {
                for dependent in dependents { giveUp(dependent, self.name(of: dependent), nil) }
            }
        case ("resolve", "server_wins"): giveUp(index, name, "server_wins")
        default:
            let (isResolved, payload) = (action == "resolve", body["payload"].flatMap { $0.isNull ? nil : $0 })
            if isResolved, mutations[index].operation == "create", !isOfDeleted {
                return .init(status: 409, .problem(409, "status_transition_must_be_valid"))
            }
            if isResolved, mutations[index].operation == "update", isOfDeleted, payload == nil {
                return .init(status: 422, .problem(422, "validation_failed"))
            }
            mutations[index].status = "pending"
            mutations[index].isForced = isResolved
            mutations[index].isWhole = isResolved && isOfDeleted
            mutations[index].revision += 1
            if isResolved { mutations[index].resolution = "client_wins" }
            if let payload { mutations[index].payload = payload }
            // the create gets another server id, because another entity may have the earlier one
            if mutations[index].operation == "create" { mutations[index].serverID = nil }
        }
        run(user)
        return .init(mutations[index].result)
    }

    private func name(of index: Int) -> Name? {
        let mutation = mutations[index]
        return (mutation.serverID ?? mutation.clientName.flatMap { serverIDs[$0] }).map {
            Name(type: mutation.type, id: $0)
        }
    }

    /// Returns the open mutations that depend, directly or through other mutations, on the entity that this mutation
    /// creates.
    private func dependents(of index: Int) -> [Int] {
        var found = [index]
        for other in mutations.indices where other > index && mutations[other].isOpen {
            let isDependent = found.contains { earlier in
                mutations[earlier].operation == "create"
                    && mutations[earlier].clientName.map { mutations[other].needs($0) } ?? false
            }
            if isDependent, mutations[other].writer.user == mutations[index].writer.user { found.append(other) }
        }
        return Array(found.dropFirst())
    }
}
