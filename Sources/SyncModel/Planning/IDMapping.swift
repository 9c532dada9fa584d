public import FoundationEssentials

/// The mapping of one user's client id to a server id (specification 000 (docs/spec)).
public struct IDMapping: Sendable, Hashable {
    /// The status of a mapping (specification 000 (docs/spec), `status`).
    public enum Status: String, Sendable, Hashable, CaseIterable {
        case pending
        /// The mapping has a server id.
        ///
        /// See specification 000 (docs/spec), `resolved_requires_server_id`. A CHECK constraint enforces the rule as
        /// well.
        case resolved
        case failed
    }

    @Exact public private(set) var entityType: String
    /// The client's id of the entity, which never changes (specification 000 (docs/spec), `client_id_immutable`).
    public let client: ClientName
    /// The server id; nil while the server id is unknown.
    public var serverID: ServerID?
    public var status: Status
    /// The id of the mutation that creates the entity. After the mapping is resolved, this value has no effect.
    public let mutationID: UUID
    /// Whether the mapping will never be resolved, because its create was discarded.
    ///
    /// If true, another create may use the client id.
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

    /// The mapping of a local id, which is an entity's number on one device.
    ///
    /// - Parameters:
    ///   - create: the mutation that creates the entity; nil for an id that a pull assigned.
    ///   - isAbandoned: whether the create was discarded or deleted. Ignored if the id is resolved.
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

    /// The client id of the entity, or the UUID that represents its local id.
    public var clientID: UUID { client.id }

    /// The local id that the client id represents; nil if the client id does not represent a local id.
    public var localID: LocalID? { client.number.map { LocalID(entityType: entityType, number: $0) } }

    /// The key of the mapping, which is the client id with its entity type.
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

/// The mappings of a user that can be part of the answer to a push. The answer contains them if they are resolved.
///
/// For the client id of an entry's entity, these are only the mappings of the entry's entity type. For a client id in
/// an endpoint, a payload or `dependency_ids`, these are the mappings of all entity types.
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

    /// The client ids of these mappings, without duplicates.
    public var clientIDs: [UUID] { Array(named.union(own.map(\.clientID))) }

    public func contains(_ mapping: IDMapping) -> Bool {
        named.contains(mapping.clientID) || own.contains(mapping.reference)
    }
}
