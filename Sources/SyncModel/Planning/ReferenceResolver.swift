import Foundation
import JSONText

/// Puts server ids in the place of the client's names, in a mutation's path and in its payload with its relations: for a
/// push that takes effect at once, a lane's turn, a person's retry and a preview. Pure; whoever asks knows where ids lead.
struct ReferenceResolver {
    private let entity: EntityName
    private let lookUp: (UUID) -> ServerID?

    /// - Parameters:
    ///   - entity: the mutation's own, with the server id that stands for it.
    ///   - lookUp: where any other client id leads; nil where that is not known, and for what is just data.
    init(of entity: EntityName, _ lookUp: @escaping (UUID) -> ServerID? = { _ in nil }) {
        self.entity = entity
        self.lookUp = lookUp
    }

    /// What stands for the mutation's own entity.
    var own: ServerID? { entity.serverID }

    /// What stands for a UUID; nil leaves it.
    func serverID(of id: UUID) -> ServerID? { id == entity.clientID ? entity.serverID : lookUp(id) }

    /// A path with server ids in place.
    ///
    /// - Parameter own: what `{local_id}` stands for; nil leaves it.
    func path(_ endpoint: Endpoint, own: ServerID?) -> String { endpoint.resolved(own: own, serverID) }

    /// A payload with server ids in place; nil where none are to be put in.
    ///
    /// - Parameters:
    ///   - related: the device's own ids in its relations.
    ///   - unresolved: what stands for one of these that leads nowhere yet; nil leaves the number.
    func payload<Failure>(
        _ payload: JSONValue,
        _ related: [LocalReference] = [],
        unresolved: (LocalReference) throws(Failure) -> JSONReplacement?
    ) throws(Failure) -> [UInt8]? {
        let replacements = related.isEmpty ? [:] : try replacements(of: related, unresolved: unresolved)
        let edits = related.compactMap { reference in
            replacements[reference.clientID].map { JSONEdit(reference.place.value, $0) }
        }
        return payload.rewritten(edits) { serverID(of: $0)?.replacement }
    }

    /// What stands for the device's own ids in relations, by what stands for these.
    func replacements<Failure>(
        of related: [LocalReference],
        unresolved: (LocalReference) throws(Failure) -> JSONReplacement?
    ) throws(Failure) -> [UUID: JSONReplacement] {
        var replacements: [UUID: JSONReplacement] = [:]
        for reference in related where replacements[reference.clientID] == nil {
            let known = serverID(of: reference.clientID)?.replacement
            replacements[reference.clientID] = if let known { known } else { try unresolved(reference) }
        }
        return replacements
    }
}
