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
