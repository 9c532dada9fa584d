public import Foundation

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
