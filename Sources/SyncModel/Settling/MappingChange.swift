public import Foundation

/// A change of a mapping by its create, or the new server id of a device id.
///
/// In the second case the client id represents the device id.
public struct MappingChange: Sendable, Hashable {
    @Exact public private(set) var entityType: String
    /// The client's name of the entity.
    public let client: ClientName
    /// The create to which the mapping belongs.
    ///
    /// A mapping that another create has taken over is not changed.
    public let mutationID: UUID
    public let status: IDMapping.Status
    /// The permanent id of a resolved mapping.
    public var serverID: ServerID?
    /// Why it failed.
    public var lastError: String?

    /// The client id, or the UUID that represents a device id.
    public var clientID: UUID { client.id }

    /// Whether the mapping is that of a device id.
    public var isLocal: Bool { client.number != nil }

    /// - Returns: nil for a mutation that is no create, and for a create that has no mapping.
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
