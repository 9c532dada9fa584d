import SluiceClient

/// The rules about references to deleted entities (rule 24 in `docs/rules.md`).
extension MockState {
    /// Checks the relations of a write, and changes the entities that refer to a deleted entity.
    ///
    /// - Returns: the entry of `errors` for a write that would break a relation. In that case, nothing is changed.
    mutating func applyRelations(_ mutation: MockMutation, _ name: Name, _ document: JSON) -> JSON? {
        mutation.operation == "delete"
            ? applyRules(deleting: name, by: mutation.writer) : deletedTarget(document, of: name)
    }

    /// Finds a reference to a deleted entity, except for references that the stored document already contains.
    private func deletedTarget(_ document: JSON, of name: Name) -> JSON? {
        let stored = entities[name].flatMap { $0.isDeleted ? nil : $0.document }
        for (member, type) in (relations[name.type] ?? [:]).sorted(by: { $0.key < $1.key })
        where rule(of: name.type, member) != .ignore {
            let known = stored?.ids(in: member) ?? []
            for (index, id) in document.ids(in: member).enumerated() where !known.contains(id) {
                let target = Name(type: type, id: id)
                guard target != name, entities[target]?.isDeleted ?? false else { continue }
                let place = document[member]?.array == nil ? member : "\(member)/\(index)"
                return [
                    "pointer": .string("/payload/\(place)"), "rule": "entity_reference_must_not_be_deleted",
                    "detail": .string("the payload refers to '\(type)' \(id.string ?? id.text), which was deleted"),
                ]
            }
        }
        return nil
    }

    /// Applies the rule of each relation to the entities that refer to a deleted entity.
    private mutating func applyRules(deleting root: Name, by writer: Writer) -> JSON? {
        var deleted = [root]
        var cleared: [Name: JSON] = [:]
        var restricting: [Name] = []
        var next = 0
        while next < deleted.count {
            let target = deleted[next]
            next += 1
            for (name, members) in referrers(of: target) where !deleted.contains(name) {
                let rules = members.map { rule(of: name.type, $0) }
                if rules.contains(.restrict) {
                    restricting.append(name)
                } else if rules.contains(.cascade) {
                    deleted.append(name)
                } else if var document = cleared[name] ?? entities[name]?.document {
                    for member in members { document[member] = document[member]?.without(target.id) }
                    cleared[name] = document
                }
            }
        }
        if let name = restricting.first(where: { !deleted.contains($0) }) {
            let detail = "'\(name.type)' \(name.id.string ?? name.id.text) refers to an entity that would be deleted"
            return ["pointer": "", "rule": "entity_must_not_be_referred_to", "detail": .string(detail)]
        }
        for (name, document) in cleared where !deleted.contains(name) {
            write(name, document, isDeleted: false, by: writer)
            entities[name]?.document = document
        }
        for name in deleted.dropFirst().reversed() {
            write(name, entities[name]?.document ?? [:], isDeleted: true, by: writer)
        }
        return nil
    }

    /// Returns the entities that refer to an entity by enforced relations, with the members that contain the reference.
    private func referrers(of target: Name) -> [(name: Name, members: [String])] {
        entities.compactMap { name, entity in
            guard !entity.isDeleted else { return nil }
            let members = (relations[name.type] ?? [:]).filter { member, type in
                type == target.type && rule(of: name.type, member) != .ignore
                    && entity.document.ids(in: member).contains(target.id)
            }
            return members.isEmpty ? nil : (name, Array(members.keys))
        }
    }

    private func rule(of type: String, _ member: String) -> MockGateway.DeletionRule {
        onDelete[type]?[member] ?? .restrict
    }
}

extension JSON {
    /// Returns the ids in a relation. The member is a single id or an array of ids.
    fileprivate func ids(in member: String) -> [JSON] { self[member].map { $0.array ?? [$0] } ?? [] }

    /// Returns the value of a relation after removing an id.
    fileprivate func without(_ id: JSON) -> JSON {
        if let elements = array { return .array(elements.filter { $0 != id }) }
        return self == id ? .null : self
    }
}
