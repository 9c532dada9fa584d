public import Foundation

/// Client id → server id of one user (seed 000).
public struct IDMapping: Sendable, Hashable {
    /// Where a mapping stands (seed 000, `status`).
    public enum Status: String, Sendable, Hashable, CaseIterable {
        case pending
        /// Has a server id (seed 000, `resolved_requires_server_id`; a CHECK says so too).
        case resolved
        case failed
    }

    /// The entity's type.
    public let entityType: String
    /// What its client calls the entity; it never changes (seed 000, `client_id_immutable`).
    public let client: ClientName
    /// The permanent id, once it is known.
    public var serverID: ServerID?
    /// Where the mapping stands.
    public var status: Status
    /// The create that brings the entity into being; of one that is resolved nobody asks.
    public let mutationID: UUID
    /// Whether nothing will ever resolve it: its create was discarded. Another create may take the client id over.
    public let isAbandoned: Bool

    /// Creates the value; by default a mapping whose create has not run yet.
    public init(
        entityType: String,
        client: ClientName,
        serverID: ServerID? = nil,
        status: Status = .pending,
        mutationID: UUID,
        isAbandoned: Bool = false
    ) {
        self.entityType = entityType
        self.client = client
        self.serverID = serverID
        self.status = status
        self.mutationID = mutationID
        self.isAbandoned = isAbandoned
    }

    /// Where an id of a device leads.
    ///
    /// - Parameters:
    ///   - create: the mutation that made it; nil for one that a pull gave, and of which nobody asks.
    ///   - isAbandoned: whether its create was discarded or is gone; of interest while it leads nowhere.
    public init(
        _ id: LocalID,
        on device: UUID,
        serverID: ServerID?,
        createdBy create: UUID? = nil,
        isAbandoned: Bool = false
    ) {
        let name = id.name(on: device)
        self.init(
            entityType: id.entityType,
            client: name,
            serverID: serverID,
            status: serverID == nil ? .pending : .resolved,
            mutationID: create ?? name.id,
            isAbandoned: serverID == nil && isAbandoned
        )
    }

    /// The temporary id, or what stands for a device's own.
    public var clientID: UUID { client.id }

    /// The device's own id, where the client id stands for one.
    public var localID: LocalID? { client.number.map { LocalID(entityType: entityType, number: $0) } }

    /// The client id under its type: the mapping's key.
    public var reference: ClientReference { ClientReference(clientID: clientID, entityType: entityType) }
}
