import JSONText

/// The mutation's content with permanent ids in place of client ids and device ids.
extension DispatchDecision {
    /// For a client id with a recorded type, only its permanent id in that type counts.
    private var resolver: ReferenceResolver {
        let (mappings, references) = (surroundings.mappings, mutation.references)
        return ReferenceResolver(of: mutation.entity.with(own)) { id in
            guard references.ids.contains(id) else { return nil }
            let type = references.types[id]
            return mappings[id]?.first { type == nil || $0.entityType == type }?.serverID
        }
    }

    /// Checks that a client id without a recorded type belongs to one type only.
    func checkTypes() throws(Problem) {
        let references = mutation.references
        for id in references.ids where references.types[id] == nil && id != mutation.entity.clientID {
            guard let known = surroundings.mappings[id], Set<ByteExactString>(known.map(\.entityType)).count > 1 else {
                continue
            }
            throw .ambiguous("client id \(id.lowercased)", known.map(\.entityType))
        }
    }

    /// The path with server ids. A create has no server id yet, so its device's id is used instead.
    func path(_ endpoint: Endpoint) -> String {
        resolver.path(endpoint, own: own ?? mutation.entity.client?.asServerID)
    }

    /// The mutation's payload with server ids, or the body that it sends instead.
    ///
    /// - Throws: `dependency_rejected` where a relation has a device id without a server id. On another device such a
    ///   number means another entity, or does not exist.
    func body(instead sent: [UInt8]?) throws(Problem) -> [UInt8]? {
        let type = surroundings.type
        if let sent, !type.holdsLocalIDs { return sent }
        guard let payload = mutation.payload, let root = try? JSONTree(parsing: payload).root else { return sent }
        let related = type.localReferences(in: root, on: mutation.deviceID)
        guard let sent else { return try resolver.payload(root, related, unresolved: unresolved) ?? payload }
        // an id that was unknown when this body was decided was written as the UUID that represents it
        let replacements = try resolver.replacements(of: related, unresolved: unresolved)
        guard !replacements.isEmpty, let root = try? JSONTree(parsing: sent, limits: .widest).root else { return sent }
        return root.rewritten { replacements[$0] } ?? sent
    }

    private func unresolved(_ reference: LocalReference) throws(Problem) -> JSONReplacement {
        // the built-in store inserts the id after making it
        if reference.clientID == mutation.created?.clientID, !surroundings.type.isForwarded {
            return .uuid(reference.clientID)
        }
        let pointer = "/payload" + reference.place.pointer
        let isOwn = reference.clientID == mutation.entity.clientID
        let reason = isOwn ? "which this mutation creates, so it has no server id yet" : "which has no server id"
        let detail = "\(pointer) contains \(reference.id.words), \(reason)"
        throw Problem(.dependencyRejected, pointer: pointer, rule: Rule.entityReference, detail)
    }
}
