public import Foundation

/// A mapping that changes with its create; or where a device's own id leads, that the client id stands for.
public struct MappingChange: Sendable, Hashable {
    /// The entity's type.
    public let entityType: String
    /// What its client calls the entity.
    public let client: ClientName
    /// The create that the mapping belongs to: one that another create has taken over stays as it is.
    public let mutationID: UUID
    /// Where it stands now.
    public let status: IDMapping.Status
    /// The permanent id, of one that is resolved.
    public var serverID: ServerID?
    /// Why it failed.
    public var lastError: String?

    /// The temporary id, or what stands for a device's own.
    public var clientID: UUID { client.id }

    /// Whether it stands for a device's own id.
    public var isLocal: Bool { client.number != nil }

    /// - Returns: nil for what is no create, and for a create that has no mapping.
    init?(
        _ write: some EntityWrite,
        _ mutationID: UUID,
        _ status: IDMapping.Status,
        _ serverID: ServerID? = nil,
        lastError: String? = nil
    ) {
        guard write.operation == .create, let client = write.entity.client else { return nil }
        entityType = write.entity.type
        self.client = client
        self.mutationID = mutationID
        self.status = status
        self.serverID = serverID
        self.lastError = lastError
    }
}
