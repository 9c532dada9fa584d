import Foundation

/// What became of one entry of a push.
package enum PushVerdict: Sendable {
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
package final class NewMutation: Sendable {
    /// What the client sent.
    package let mutation: Mutation
    /// How it stands.
    package let record: MutationRecord
    /// Its own priority or its type's, 0 to 1,000.
    package let priority: Int16
    /// Its own strategy or the organization's.
    package let conflictResolution: ConflictResolution
    /// Client ids of the user that endpoint and payload name, and the entity's own unless this creates it: what is put
    /// in place when its turn comes. Empty for what is final.
    package let references: [ClientReference]

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
package struct NewMapping: Sendable {
    /// What leads where.
    package var mapping: IDMapping
    /// When the entity was created on the device.
    package var createdAt: Timestamp
    /// Whether it takes the place of a mapping whose create was discarded.
    package var replacesAbandoned = false
}

/// Everything that one push changes, decided; the store writes it in set-based SQL.
package struct PushPlan: Sendable {
    /// In request order.
    package var verdicts: [PushVerdict] = []
    /// The device's watermark afterwards: the highest number judged.
    package var acceptedSequence: Int64 = 0
    /// By place in the request, of entries that were taken.
    package var warnings: [Int: PushWarning] = [:]
    /// UUIDs that the device's mutations named and that stood for nothing, afterwards; nil: as they were.
    package var strayIDs: StrayIDs?
    /// In running order.
    package var mutations: [NewMutation] = []
    /// New mappings; one row each, pending ones too. Those of ids of the device stand among them.
    package var mappings: [NewMapping] = []
    /// Ids of the device that were assigned by a pull and are used here for the first time: they are the device's now.
    package var confirmedIDs: [LocalID: ServerID] = [:]
    /// Ids of the device that mutations name which wait for their turn: they have to be found by their client ids then.
    package var pinnedIDs: Set<LocalID> = []
    /// Refused entries to remember.
    package var rejections: [Rejection] = []
    /// The lane afterwards.
    package var lane = LaneState()
    /// Entity types that accepted mutations use and that are not marked as in use yet.
    package var typesToRegister: [EntityType] = []
    /// Resolved mappings that the batch touches, for the answer.
    package var touchedMappings: [IDMapping] = []
    /// What the user has used of the quota of new mutations afterwards; nil when this push uses nothing of one.
    package var allowance: TokenBucket?
    /// What is left of that quota; nil where there is none.
    package var standing: QuotaStanding?

    /// Whether anything is to be written.
    package func changesAnything(from snapshot: PushSnapshot) -> Bool {
        !mutations.isEmpty || !rejections.isEmpty || acceptedSequence != snapshot.watermark
    }
}

/// Why there is no plan.
package enum PushRefusal: Error, Sendable {
    /// The whole push is refused and changes nothing.
    case problem(Problem)
    /// The push would be refused, or an entry of it, though the snapshot leaves out some of what the push names: look up
    /// the rest and plan again.
    case needsProbe
}
