public import Foundation

/// An operation on an entity.
public protocol EntityWrite {
    var operation: Operation { get }
    var entity: EntityName { get }
}

extension EntityWrite {
    /// The client's name of the entity that a create makes.
    ///
    /// Nil of another operation, and of a create that names the server id only.
    public var created: ClientReference? { operation == .create ? entity.reference : nil }

    /// The client id by which other devices name the entity that a create makes.
    ///
    /// Nil of another operation, and for a device id, which means nothing to them.
    public var createdClientID: UUID? {
        guard operation == .create, case .id(let id)? = entity.client else { return nil }
        return id
    }

    /// Whether the entity may have existed before.
    ///
    /// So of any operation but a create that waits for its id.
    public var namesKnownEntity: Bool { operation != .create || entity.serverID != nil }
}
