public import Foundation
import JSONText

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

/// What a client calls an entity before the server has given it an id, and beside that: a case an id space. Of `shared`
/// types the client knows the server id only.
public enum ClientName: Sendable, Hashable {
    /// The user's client id, of a `mapped` type.
    case id(UUID)
    /// A number that one device counts, of a `device` type, and the UUID that stands for it (``LocalID/clientID(on:)``).
    case number(Int64, standIn: UUID)

    /// The UUID by which it is looked up, depended on and waited for.
    public var id: UUID {
        switch self {
        case .id(let id): id
        case .number(_, let standIn): standIn
        }
    }

    /// The device's own number.
    public var number: Int64? {
        switch self {
        case .id: nil
        case .number(let number, _): number
        }
    }

    /// What stands for the entity where a server id would, while it has none.
    var asServerID: ServerID {
        switch self {
        case .id(let id): ServerID(id)
        case .number(let number, _): ServerID(number)
        }
    }

    /// As problems name it, of an entity of a type.
    func words(of type: String) -> String {
        switch self {
        case .id(let id): "client id \(id.lowercased)"
        case .number(let number, _): LocalID(entityType: type, number: number).words
        }
    }
}

extension LocalID {
    /// The id as the name of an entity.
    public func name(on device: UUID) -> ClientName { .number(number, standIn: clientID(on: device)) }
}

/// A client id under the type in which it was created: others may share it.
public struct ClientReference: Sendable, Hashable {
    /// The client id, or what stands for a device's own.
    public let clientID: UUID
    /// The type.
    public let entityType: String

    /// Creates the value.
    public init(clientID: UUID, entityType: String) {
        self.clientID = clientID
        self.entityType = entityType
    }
}

/// What is done to which entity.
public protocol EntityWrite {
    /// What is done.
    var operation: Operation { get }
    /// To which.
    var entity: EntityName { get }
}

extension EntityWrite {
    /// What the client calls what a create makes; nil of anything else, and of what it names by the server's id.
    public var created: ClientReference? { operation == .create ? entity.reference : nil }

    /// The client id by which everybody is told of what a create makes; a device's own id is nobody else's business.
    public var createdClientID: UUID? {
        guard operation == .create, case .id(let id)? = entity.client else { return nil }
        return id
    }

    /// Whether it is about an entity that may have been there before: anything but a create that waits for its id.
    public var namesKnownEntity: Bool { operation != .create || entity.serverID != nil }
}
