public import FoundationEssentials

/// All changes that one push makes. The store writes them with set-based SQL.
public struct PushPlan: Sendable {
    /// The results of the entries, in request order.
    public var verdicts: [PushVerdict] = []
    /// The device's watermark after the push, which is the highest sequence number that was evaluated.
    public var acceptedSequence: Int64 = 0
    /// Warnings for accepted entries, by index in the request.
    public var warnings: [Int: PushWarning] = [:]
    /// The UUIDs in the device's recent mutations, including this push, that were no known client ids; nil to leave the
    /// stored history unchanged.
    public var unresolvedIDs: UnresolvedIDHistory?
    /// The accepted mutations, in running order.
    public var mutations: [NewMutation] = []
    /// New mappings, including pending mappings and mappings of local ids. A local id is an entity's number on one
    /// device. Each mapping is a row.
    public var mappings: [NewMapping] = []
    /// Local ids that a pull assigned, and that this push uses for the first time. The value is the server id.
    ///
    /// By using these ids, the device confirms that it received them.
    public var confirmedIDs: [LocalID: ServerID] = [:]
    /// Local ids that waiting mutations use, and that must stay resolvable until these mutations run.
    ///
    /// A stored mutation refers to a local id by the UUID that represents the local id. By this UUID, the gateway finds
    /// the server id when the mutation runs.
    public var pinnedIDs: Set<LocalID> = []
    /// The refused entries to record.
    public var rejections: [Rejection] = []
    /// The lane after the push.
    public var lane = LaneState()
    /// The accepted mutations' entity types, if the types are not yet marked as in use.
    public var typesToRegister: [EntityType] = []
    /// The resolved mappings of all client ids in the push, for the response.
    public var touchedMappings: [IDMapping] = []
    /// The user's usage of the mutation quota after the push.
    ///
    /// Nil if this push uses no quota. In this case the usage remains unchanged.
    public var allowance: TokenBucket?
    /// The user's remaining quota; nil if users have no quota.
    public var quotaStatus: QuotaStatus?

    public func changesAnything(from snapshot: PushSnapshot) -> Bool {
        !mutations.isEmpty || !rejections.isEmpty || acceptedSequence != snapshot.watermark
    }
}

/// The result of one entry of a push.
public enum PushVerdict: Sendable {
    /// This push accepted the entry. The record has the mutation's state at the end of the transaction.
    case accepted(MutationRecord)
    /// The entry repeats an accepted entry. The record has the state of the first mutation.
    case replayed(MutationRecord)
    /// This push rejected the entry.
    case rejected(Problem)
    /// The entry repeats a rejected entry. The associated value is the stored problem as JSON.
    case rejectedBefore([UInt8])

    public var isReplayed: Bool { if case .replayed = self { true } else { false } }
}

/// The reason why a push has no plan.
public enum PushRefusal: Error, Sendable {
    /// The whole push is refused and changes nothing.
    case problem(Problem)
    /// The push, or one of its entries, would be refused, but the snapshot is incomplete.
    ///
    /// The caller must look up all other keys, ids and client ids in the push, and must then plan the push again.
    case needsProbe
    /// The push needs too much work to be planned together with other pushes.
    ///
    /// See ``DocumentBounds``.
    case requiresOwnBatch
    /// This push needs few documents, but the documents of other pushes exhausted the read limit.
    ///
    /// The caller must read the data of this push again, without the pushes that need many documents.
    case isCrowded
    /// A document in the push grants the user a channel, and thereby makes entities visible whose documents were not
    /// read.
    ///
    /// The caller must read the documents of these entities, and must then plan the push again. This case occurs only
    /// if the push is planned alone. In a group, the result is ``requiresOwnBatch``.
    case needsDocuments([EntityKey])
}

/// A warning to the client about an accepted entry.
public enum PushWarning: Sendable, Hashable {
    /// An earlier mutation of the device contained the client id of this create.
    ///
    /// In the earlier mutation, the gateway treated the id as data. Therefore the earlier mutation did not depend on
    /// this create.
    case clientIDWasData
}

/// The record of a refused entry.
///
/// A repeat with the same key and sequence number gets the same refusal (product rule 5).
public struct Rejection: Sendable {
    public var idempotencyKey: UUID
    /// The mutation's id; nil if the id could not be read.
    public var id: UUID?
    public var deviceID: UUID
    public var sequenceNumber: Int64
    /// A problem object as JSON.
    public var error: [UInt8]

    public init(idempotencyKey: UUID, id: UUID?, deviceID: UUID, sequenceNumber: Int64, error: [UInt8]) {
        self.idempotencyKey = idempotencyKey
        self.id = id
        self.deviceID = deviceID
        self.sequenceNumber = sequenceNumber
        self.error = error
    }
}

/// A mutation to be stored.
///
/// The type is a class because the store reads the mutations once for each column. A copy of the reference increments
/// only one reference count.
public final class NewMutation: Sendable {
    public let mutation: Mutation
    public let record: MutationRecord
    /// The mutation's priority or, without one, the default of its entity type. From 0 to 1,000.
    public let priority: Int16
    /// The mutation's strategy or, without one, the organization's default.
    public let conflictResolution: ConflictResolution
    /// The client ids to replace by server ids when the mutation runs; empty for a final mutation.
    ///
    /// These are the user's client ids in the endpoint and the payload. If the mutation does not create the entity, the
    /// entity's own client id is included.
    public let references: [ClientReference]

    init(
        mutation: Mutation,
        record: MutationRecord,
        priority: Int16,
        conflictResolution: ConflictResolution,
        references: [ClientReference]
    ) {
        self.mutation = mutation
        self.record = record
        self.priority = priority
        self.conflictResolution = conflictResolution
        self.references = references
    }
}

/// A stored mutation that is not final, and that writes an entity of the push.
public struct OpenMutation: Sendable {
    public let id: UUID
    /// The entity, with all of its known ids.
    public let entity: EntityName
    /// The mutation's position in the lane.
    public let position: Int64

    public init(id: UUID, entity: EntityName, position: Int64) {
        self.id = id
        self.entity = entity
        self.position = position
    }
}

/// An accepted entry of a push, with its dependencies.
struct ValidatedMutation {
    /// The origin of a client id's server id.
    enum Target {
        case server(ServerID)
        /// The client id gets its server id when this entry of the push runs.
        case entry(Int)
        /// The client id gets its server id when this stored mutation runs.
        case mutation(UUID)
    }

    let index: Int
    let mutation: Mutation
    let type: EntityType
    /// The stored mutations that must succeed before this entry runs.
    var stored: [UUID] = []
    /// The entries of this push that must succeed before this entry runs.
    private(set) var entries: [Int] = []
    /// The targets of the client ids in the endpoint and the payload.
    ///
    /// Each target is stored with the entity type in which the client id was created.
    private(set) var references: [UUID: (type: String, target: Target)] = [:]

    init(index: Int, mutation: Mutation, type: EntityType) {
        self.index = index
        self.mutation = mutation
        self.type = type
    }

    mutating func refer(to id: UUID, of type: String, _ target: Target) { references[id] = (type, target) }

    mutating func wait(forEntry index: Int) {
        if !entries.contains(index) { entries.append(index) }
    }

    mutating func wait(for id: UUID) {
        if !stored.contains(id) { stored.append(id) }
    }

    /// The client ids to replace by server ids when the mutation runs, sorted.
    var clientReferences: [ClientReference] {
        references.map { ClientReference(clientID: $0, entityType: $1.type) }.sorted { $0.clientID < $1.clientID }
    }
}
