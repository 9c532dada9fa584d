import Foundation
import JSONText

/// The mutation's content with permanent ids in the place of those by which its device named entities.
extension Turn {
    /// The permanent id that stands in a client id's place; nil where it is just data.
    private func resolve(_ id: UUID) -> ServerID? {
        if id == mutation.localID { return own }
        guard mutation.references.contains(id) else { return nil }
        let type = mutation.referenceTypes[id]
        return surroundings.mappings[id]?.first { type == nil || $0.entityType == type }?.serverID
    }

    /// Of a client id whose type was not noted, more than one cannot be chosen from.
    func checkTypes() throws(Problem) {
        for id in mutation.references where mutation.referenceTypes[id] == nil && id != mutation.localID {
            guard let known = surroundings.mappings[id], Set(known.map(\.entityType)).count > 1 else { continue }
            throw .ambiguous("client id \(id.lowercased)", known.map(\.entityType))
        }
    }

    /// Where it goes, with ids in place.
    func path(_ path: Endpoint) -> String {
        // a create has no server id yet: the id that its device gave it stands for it
        let given =
            mutation.localNumber.map { ServerID(text: String($0), isInteger: true) }
            ?? mutation.localID.map { ServerID($0) }
        return path.resolved(own: own ?? given, resolve)
    }

    /// The mutation's payload with server ids in place, or what it sends instead.
    ///
    /// - Throws: `dependency_rejected` where a relation holds an id of the device that leads to no server id. To everybody
    ///   else such a number means another entity, or none.
    func body(instead sent: [UInt8]?) throws(Problem) -> [UInt8]? {
        if let sent, !surroundings.type.holdsLocalIDs { return sent }
        guard let payload = mutation.payload, let root = try? JSONTree(parsing: payload).root else { return sent }
        let references = surroundings.type.localReferences(in: root, on: mutation.deviceID)
        var replacements: [UUID: JSONReplacement] = [:]
        for reference in references where replacements[reference.clientID] == nil {
            replacements[reference.clientID] = try replacement(of: reference)
        }
        if let sent {
            // what was not known when this was decided went in by the UUID that stands for it
            guard !replacements.isEmpty, let root = try? JSONTree(parsing: sent, limits: .widest).root else {
                return sent
            }
            return root.rewritten { replacements[$0] } ?? sent
        }
        let edits = references.compactMap { reference in
            replacements[reference.clientID].map { JSONEdit(reference.place.value, $0) }
        }
        return root.rewritten(edits) { resolve($0)?.replacement } ?? payload
    }

    private func replacement(of reference: LocalReference) throws(Problem) -> JSONReplacement {
        let isOwn = reference.clientID == mutation.localID
        let known = surroundings.mappings[reference.clientID]?.first { $0.entityType == reference.id.entityType }
        if let id = isOwn ? own : known?.serverID { return id.replacement }
        // the built-in store puts the id in when it has made it
        if isOwn, mutation.operation == .create, !surroundings.type.isForwarded { return .uuid(reference.clientID) }
        let pointer = "/payload" + reference.place.pointer
        let reason = isOwn ? "which this mutation creates: it has no server id before that" : "which has no server id"
        let detail = "\(pointer) holds \(reference.id.words), \(reason)"
        throw Problem(.dependencyRejected, pointer: pointer, rule: Rule.entityReference, detail)
    }
}
