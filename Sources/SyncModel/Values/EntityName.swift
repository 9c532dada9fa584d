public import Foundation

/// Which entity is meant: the names by which a mutation knows it.
public struct EntityName: Sendable, Hashable {
    /// The entity's type.
    public let type: String
    /// What the client calls it; nil where it gave the server id alone.
    public let client: ClientName?
    /// Its permanent id, as far as it is known.
    public let serverID: ServerID?

    /// Creates the value.
    public init(type: String, client: ClientName?, serverID: ServerID? = nil) {
        self.type = type
        self.client = client
        self.serverID = serverID
    }

    /// The same with another server id.
    public func with(_ serverID: ServerID?) -> EntityName {
        EntityName(type: type, client: client, serverID: serverID)
    }

    /// The UUID by which the client knows it; what stands for a device's own id, too.
    public var clientID: UUID? { client?.id }

    /// What the client calls it, where that leads by a mapping.
    public var reference: ClientReference? { client.map { ClientReference(clientID: $0.id, entityType: type) } }

    /// The device's own id, where it is named so.
    public var localID: LocalID? { client?.number.map { LocalID(entityType: type, number: $0) } }

    /// What the client calls it, as problems name it.
    var words: String? { client?.words(of: type) }

    /// Whether both name one entity, as far as their names tell: an integer's digits in a string are the same id.
    func isSame(as other: EntityName) -> Bool {
        guard type == other.type else { return false }
        if let serverID, serverID.text == other.serverID?.text { return true }
        return clientID != nil && clientID == other.clientID
    }
}

extension LocalID {
    /// The id as the name of an entity.
    public func name(on device: UUID) -> ClientName { .number(number, standIn: clientID(on: device)) }
}
