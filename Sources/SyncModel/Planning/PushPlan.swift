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
