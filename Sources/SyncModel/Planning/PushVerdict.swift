import Foundation

/// What became of one entry of a push.
public enum PushVerdict: Sendable {
    /// Accepted now; the record says how it stands at the end of the transaction.
    case accepted(MutationRecord)
    /// A repetition: the first outcome again.
    case replayed(MutationRecord)
    /// Not accepted.
    case rejected(Problem)
    /// A repetition of a rejected entry: the problem as it was stored, JSON.
    case rejectedBefore([UInt8])
}

/// A mutation to be stored: what the client sent and how it stands.
///
/// A class, for it is read column by column: a copy is one count.
public final class NewMutation: Sendable {
    /// What the client sent.
    public let mutation: Mutation
    /// How it stands.
    public let record: MutationRecord
    /// Its own priority or its type's, 0 to 1,000.
    public let priority: Int16
    /// Its own strategy or the organization's.
    public let conflictResolution: ConflictResolution
    /// Client ids of the user that endpoint and payload name, and the entity's own unless this creates it: what is put
    /// in place when its turn comes. Empty for what is final.
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

/// A mapping to be stored.
public struct NewMapping: Sendable {
    /// What leads where.
    public var mapping: IDMapping
    /// When the entity was created on the device.
    public var createdAt: Timestamp
    /// Whether it takes the place of a mapping whose create was discarded.
    public var replacesAbandoned = false
}

/// Everything that one push changes, decided; the store writes it in set-based SQL.
public struct PushPlan: Sendable {
    /// In request order.
    public var verdicts: [PushVerdict] = []
    /// The device's watermark afterwards: the highest number judged.
    public var acceptedSequence: Int64 = 0
    /// By place in the request, of entries that were taken.
    public var warnings: [Int: PushWarning] = [:]
    /// UUIDs that the device's mutations named and that stood for nothing, afterwards; nil: as they were.
    public var strayIDs: StrayIDs?
    /// In running order.
    public var mutations: [NewMutation] = []
    /// New mappings; one row each, pending ones too. Those of ids of the device stand among them.
    public var mappings: [NewMapping] = []
    /// Ids of the device that were assigned by a pull and are used here for the first time: they are the device's now.
    public var confirmedIDs: [LocalID: ServerID] = [:]
    /// Ids of the device that mutations name which wait for their turn: they have to be found by their client ids then.
    public var pinnedIDs: Set<LocalID> = []
    /// Refused entries to remember.
    public var rejections: [Rejection] = []
    /// The lane afterwards.
    public var lane = LaneState()
    /// Entity types that accepted mutations use and that are not marked as in use yet.
    public var typesToRegister: [EntityType] = []
    /// Resolved mappings that the batch touches, for the answer.
    public var touchedMappings: [IDMapping] = []
    /// What the user has used of the quota of new mutations afterwards; nil when this push uses nothing of one.
    public var allowance: TokenBucket?
    /// What is left of that quota; nil where there is none.
    public var standing: QuotaStanding?

    /// Whether anything is to be written.
    public func changesAnything(from snapshot: PushSnapshot) -> Bool {
        !mutations.isEmpty || !rejections.isEmpty || acceptedSequence != snapshot.watermark
    }
}

/// Why there is no plan.
public enum PushRefusal: Error, Sendable {
    /// The whole push is refused and changes nothing.
    case problem(Problem)
    /// The push would be refused, or an entry of it, though the snapshot leaves out some of what the push names: look up
    /// the rest and plan again.
    case needsProbe
}
