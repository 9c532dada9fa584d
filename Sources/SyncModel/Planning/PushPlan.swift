public import Foundation

/// All changes of one push; the store writes them in set-based SQL.
public struct PushPlan: Sendable {
    /// In request order.
    public var verdicts: [PushVerdict] = []
    /// The device's watermark afterwards: the highest number judged.
    public var acceptedSequence: Int64 = 0
    /// By index in the request, of accepted entries.
    public var warnings: [Int: PushWarning] = [:]
    /// The device's stray UUIDs afterwards; nil: unchanged.
    public var unresolvedIDs: UnresolvedIDHistory?
    /// In running order.
    public var mutations: [NewMutation] = []
    /// New mappings, pending ones included, one row each; those of device ids as well.
    public var mappings: [NewMapping] = []
    /// Device ids that a pull assigned and that this push uses for the first time.
    ///
    /// The push confirms them.
    public var confirmedIDs: [LocalID: ServerID] = [:]
    /// Device ids in waiting mutations that must be found by their client ids.
    public var pinnedIDs: Set<LocalID> = []
    /// Refused entries to remember.
    public var rejections: [Rejection] = []
    /// The lane afterwards.
    public var lane = LaneState()
    /// Entity types of accepted mutations that are not marked as in use yet.
    public var typesToRegister: [EntityType] = []
    /// Resolved mappings that the batch touches, for the answer.
    public var touchedMappings: [IDMapping] = []
    /// The user's usage of the mutation quota afterwards.
    ///
    /// Nil when this push uses nothing of a quota.
    public var allowance: TokenBucket?
    /// The remaining quota; nil if there is no quota.
    public var standing: QuotaStatus?

    public func changesAnything(from snapshot: PushSnapshot) -> Bool {
        !mutations.isEmpty || !rejections.isEmpty || acceptedSequence != snapshot.watermark
    }
}

/// The result of one entry of a push.
public enum PushVerdict: Sendable {
    /// Accepted by this push; the record shows its state at the end of the transaction.
    case accepted(MutationRecord)
    /// A replay: the first outcome again.
    case replayed(MutationRecord)
    /// Not accepted.
    case rejected(Problem)
    /// A replay of a rejected entry: the problem as it was stored, JSON.
    case rejectedBefore([UInt8])

    public var isReplayed: Bool { if case .replayed = self { true } else { false } }
}

/// Why there is no plan.
public enum PushRefusal: Error, Sendable {
    /// The whole push is refused and changes nothing.
    case problem(Problem)
    /// The push, or an entry of it, would be refused, but the snapshot is incomplete.
    ///
    /// Look up the rest of the push's names and plan again.
    case needsProbe
    /// The push takes too much to be planned together with others.
    ///
    /// See ``DocumentBounds``.
    case requiresOwnBatch
    /// Documents of other pushes left no room for this push's few documents.
    ///
    /// Read it without the heavy ones.
    case isCrowded
}

/// A warning to the client about an accepted entry.
public enum PushWarning: Sendable, Hashable {
    /// An earlier mutation of the device named the client id of this create.
    ///
    /// It came before the create, so there the id is data.
    case clientIDWasData
}

/// The record of a refused entry.
///
/// The same key and number get the same refusal (product rule 5).
public struct Rejection: Sendable {
    public var idempotencyKey: UUID
    /// Nil when it could not be read.
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
/// A class, since it is read column by column: a copy is one count.
public final class NewMutation: Sendable {
    public let mutation: Mutation
    public let record: MutationRecord
    /// Its own priority or its type's, 0 to 1,000.
    public let priority: Int16
    /// Its own strategy or the organization's.
    public let conflictResolution: ConflictResolution
    /// The client ids to replace when the mutation's turn comes.
    ///
    /// The user's client ids in endpoint and payload, and the entity's own unless this mutation creates it. Empty for a
    /// final mutation.
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

/// A mutation that is not final and writes an entity of the push.
public struct OpenMutation: Sendable {
    public let id: UUID
    /// The entity, under the names that are known.
    public let entity: EntityName
    /// Its place in the lane.
    public let position: Int64

    public init(id: UUID, entity: EntityName, position: Int64) {
        self.id = id
        self.entity = entity
        self.position = position
    }
}

/// An accepted entry of a push, and its dependencies.
struct ValidatedMutation {
    /// The target of a client id.
    enum Target {
        case server(ServerID)
        /// Unresolved until this entry of the push has run.
        case entry(Int)
        /// Unresolved until this stored mutation has run.
        case mutation(UUID)
    }

    let index: Int
    let mutation: Mutation
    let type: EntityType
    /// Stored mutations that must succeed first.
    var stored: [UUID] = []
    /// Entries of this push that must succeed first.
    private(set) var entries: [Int] = []
    /// The targets of the client ids in endpoint and payload.
    ///
    /// Each has the type in which the client id was created.
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

    /// The client ids to replace when the mutation's turn comes, sorted.
    var clientReferences: [ClientReference] {
        references.map { ClientReference(clientID: $0, entityType: $1.type) }.sorted { $0.clientID < $1.clientID }
    }
}
