public import Foundation

/// The names by which a mutation knows its entity.
public struct EntityName: Sendable, Hashable {
    @Exact public private(set) var type: String
    /// The client's name; nil where it gave the server id alone.
    public let client: ClientName?
    /// Nil while it is not known.
    public let serverID: ServerID?

    public init(type: String, client: ClientName?, serverID: ServerID? = nil) {
        self.type = type
        self.client = client
        self.serverID = serverID
    }

    public func with(_ serverID: ServerID?) -> EntityName {
        EntityName(type: type, client: client, serverID: serverID)
    }

    /// The client id, or the UUID that represents a device id.
    public var clientID: UUID? { client?.id }

    /// The key of the client's name in mappings.
    public var reference: ClientReference? { client.map { ClientReference(clientID: $0.id, entityType: type) } }

    /// Nil where the client's name is no device id.
    public var localID: LocalID? { client?.number.map { LocalID(entityType: type, number: $0) } }

    /// The client's name in problems.
    var words: String? { client?.words(of: type) }

    /// Whether both name one entity, as far as their names show.
    ///
    /// An integer and a string of its digits are the same id.
    func isSame(as other: EntityName) -> Bool {
        guard type == other.type else { return false }
        if let serverID, serverID.text == other.serverID?.text { return true }
        return clientID != nil && clientID == other.clientID
    }
}

extension LocalID {
    public func name(on device: UUID) -> ClientName { .number(number, standIn: clientID(on: device)) }
}
