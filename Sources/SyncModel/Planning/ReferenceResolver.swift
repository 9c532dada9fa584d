import Foundation
import JSONText

/// Replaces the client's names by server ids in a mutation's path and payload.
///
/// Includes the payload's relations. Used for a push that takes effect at once, a lane's turn, a person's retry and a
/// preview. Pure; the caller supplies the server ids.
struct ReferenceResolver {
    private let entity: EntityName
    private let lookUp: (UUID) -> ServerID?

    /// - Parameters:
    ///   - entity: the mutation's own, with its server id.
    ///   - lookUp: the server id of any other client id; nil where it is unknown, and for mere data.
    init(of entity: EntityName, _ lookUp: @escaping (UUID) -> ServerID? = { _ in nil }) {
        self.entity = entity
        self.lookUp = lookUp
    }

    /// The server id of the mutation's own entity.
    var own: ServerID? { entity.serverID }

    /// The server id of a UUID; nil leaves the UUID.
    func serverID(of id: UUID) -> ServerID? { id == entity.clientID ? entity.serverID : lookUp(id) }

    /// - Parameter own: replaces `{local_id}`; nil leaves it.
    func path(_ endpoint: Endpoint, own: ServerID?) -> String { endpoint.resolved(own: own, serverID) }

    /// A payload with server ids in place; nil if there are no ids to replace.
    ///
    /// - Parameters:
    ///   - related: the device ids in its relations.
    ///   - unresolved: the replacement of an unresolved one; nil leaves the number.
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

    /// The replacements of device ids in relations, by the client ids for them.
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
