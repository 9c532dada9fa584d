public import FoundationEssentials

/// The mapping of one user's client id to a server id (specification 000 (docs/spec)).
public struct IDMapping: Sendable, Hashable {
    /// The status of a mapping (specification 000 (docs/spec), `status`).
    public enum Status: String, Sendable, Hashable, CaseIterable {
        case pending
        /// The mapping has a server id.
        ///
        /// Specification 000 (docs/spec), `resolved_requires_server_id`; a CHECK enforces it as well.
        case resolved
        case failed
    }

    @Exact public private(set) var entityType: String
    /// The client's id of the entity. It never changes (specification 000 (docs/spec), `client_id_immutable`).
    public let client: ClientName
    /// The server id; nil while it is unknown.
    public var serverID: ServerID?
    public var status: Status
    /// The create of the entity. After the mapping is resolved, this value has no effect.
    public let mutationID: UUID
    /// Whether the mapping will never be resolved, because its create was discarded. If so, another create may take
    /// over the client id.
    public let isAbandoned: Bool

    /// Creates a mapping. By default, its create has not run yet.
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

    /// The mapping of a device id.
    ///
    /// - Parameters:
    ///   - create: the mutation that creates the entity; nil for an id that a pull assigned, because then the value has
    ///     no effect.
    ///   - isAbandoned: whether the create was discarded or deleted; ignored after the id is resolved.
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

    /// The client id, or the UUID that represents a device id.
    public var clientID: UUID { client.id }

    /// The device id that the client id represents; nil for other client ids.
    public var localID: LocalID? { client.number.map { LocalID(entityType: entityType, number: $0) } }

    /// The mapping's key: the client id with its entity type.
    public var reference: ClientReference { ClientReference(clientID: clientID, entityType: entityType) }
}

/// A mapping to be stored.
public struct NewMapping: Sendable {
    public var mapping: IDMapping
    /// When the entity was created on the device.
    public var createdAt: Timestamp
    /// Whether the mapping replaces a mapping whose create was discarded.
    public var replacesAbandoned = false
}

/// The mappings of a user that the answer to a push contains after they are resolved.
///
/// The client id of an entry's entity counts only in its own entity type. A client id in an endpoint, a payload or
/// `dependency_ids` counts in any entity type.
public struct TouchedMappings: Sendable {
    private var named: Set<UUID> = []
    private var own: Set<ClientReference> = []

    public init(_ push: PushRequest) {
        for mutation in push.entries.lazy.compactMap(\.mutation) {
            if let name = mutation.entity.reference { own.insert(name) }
            named.formUnion(mutation.references)
            named.formUnion(mutation.dependencyIDs)
        }
    }

    /// Each client id that such a mapping may have, without duplicates.
    public var clientIDs: [UUID] { Array(named.union(own.map(\.clientID))) }

    public func contains(_ mapping: IDMapping) -> Bool {
        named.contains(mapping.clientID) || own.contains(mapping.reference)
    }
}
