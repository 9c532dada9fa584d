/// Bounds on the reads, writes and answer of one unit of work.
///
/// A small request can name documents of a megabyte each, so the size of its body does not predict its cost. These
/// bounds apply before data are read. Statements count the bytes of the rows that they would return, and omit values
/// that exceed a bound. Planners refuse a unit of work that exceeds a bound even if it is processed alone.
public enum WorkBounds {
    /// The maximum number of bytes of entities, upstreams' bodies, stored errors and lists of blockers in one answer.
    ///
    /// The rest of an answer is bounded by the number of its entries and of its id mappings.
    public static let answer = 2_097_152
    /// The size in bytes up to which a value is always part of an answer.
    ///
    /// Each mutation stores its own copy of such values.
    public static let small = 2_048
    /// The bytes of an id in a list in JSON.
    public static let listedID = 39
    /// The number of ids in a shortened list of blockers, which has fewer bytes than ``small``.
    public static let blockers = 32
    /// The maximum number of ids in the reason why a lane is held, and in the lane's head.
    public static let heldBy = 100
    /// The maximum number of bytes of documents that a group of pushes reads together.
    public static let groupDocuments = 16_777_216
    /// The maximum number of bytes of documents that one push reads.
    ///
    /// The database can write that many bytes within a statement's time limit.
    public static let pushDocuments = 33_554_432
    /// The maximum number of bytes of large stored records that a group of pushes reads together.
    ///
    /// The records are errors and upstreams' bodies; small ones are not counted.
    public static let groupRecords = 16_777_216
    /// The maximum number of grants that a group of writes, or a step of an evaluation, begins or ends.
    ///
    /// A small document grants up to 200 channels, and each grant is a row. Grants that an entity makes before and after
    /// its writes are only compared, and two of them count as one.
    public static let groupGrants = 2_000
    /// The maximum number of grants that one push begins or ends.
    ///
    /// The database writes that many rows within half of a statement's time limit.
    public static let pushGrants = 10_000
    /// The maximum number of stays that a group of writes, or a step of an evaluation, begins, moves or ends.
    ///
    /// Each write of an entity changes a row for each of its channels, of which it has up to 32.
    public static let groupStays = 8_000
    /// The maximum number of stays that one push begins, moves or ends.
    ///
    /// It is enough for a deletion with 1,000 effects on entities in 32 channels each.
    public static let pushStays = 40_000
    /// The maximum number of bytes of documents that a preview reads and merges.
    ///
    /// The preview holds them in memory while it plans.
    public static let preview = 8_388_608
    /// The maximum number of bytes of a body that a route's template makes of a payload.
    public static let routedBody = 8_388_608
    /// The maximum number of bytes of contents that one transaction of a bulk call reads.
    public static let bulkContents = 8_388_608
    /// The maximum number of bytes of documents that one transaction copies into the errors of discarded mutations.
    public static let discardDocuments = 1_048_576
}

/// The rows of channels that writes change: numbers of grants and of stays.
public struct ChannelChanges: Sendable, Hashable {
    /// Grants that begin or end, and half of those that last.
    public var grants = 0
    /// Stays that begin, move or end.
    public var stays = 0

    /// The bounds of a group of writes and of a step of an evaluation.
    static let group = ChannelChanges(grants: WorkBounds.groupGrants, stays: WorkBounds.groupStays)
    /// The bounds of one push.
    static let push = ChannelChanges(grants: WorkBounds.pushGrants, stays: WorkBounds.pushStays)

    public init(grants: Int = 0, stays: Int = 0) {
        self.grants = grants
        self.stays = stays
    }

    /// The changes that a write of an entity's grants makes.
    public init(from before: Set<GrantedChannel>, to after: Set<GrantedChannel>) {
        let kept = before.intersection(after).count
        grants = before.count + after.count - 2 * kept + kept / 2
    }

    /// Whether these are too many changes for a group of writes, or for a step of an evaluation.
    public var exceedGroup: Bool { exceed(.group) }

    func exceed(_ most: ChannelChanges) -> Bool { grants > most.grants || stays > most.stays }

    public static func + (left: Self, right: Self) -> Self {
        Self(grants: left.grants + right.grants, stays: left.stays + right.stays)
    }

    public static func - (left: Self, right: Self) -> Self {
        Self(grants: left.grants - right.grants, stays: left.stays - right.stays)
    }

    public static func += (left: inout Self, right: Self) { left = left + right }
}

/// The estimated cost of a push, a preview or a settling call, in bytes.
public struct WorkCost: Sendable, Equatable {
    /// The number of bytes of stored documents that the work reads; each document counts once.
    public var read = 0
    /// The number of bytes that the work merges; a document counts once for each patch.
    public var merged = 0
    /// The number of bytes that the work writes.
    ///
    /// This includes each patched document, and each document that a conflict stores.
    public var written = 0
    /// The number of bytes of the answer.
    public var answered = 0

    public init() {}

    /// The minimum number of bytes that one entry adds to an answer.
    ///
    /// It covers a result with its names and times, without entities.
    public static let entry = 768

    /// The maximum number of bytes of an id mapping in an answer, apart from unusually long server ids.
    public static let mapping = 256

    /// The bytes of the answer to a push without its large parts.
    ///
    /// The large parts are entities, upstreams' bodies, long errors and long lists of blockers.
    public static func answer(entries: Int, mappings: Int) -> Int {
        256 + WorkBounds.heldBy * WorkBounds.listedID + entries * entry + mappings * mapping
    }

    /// The maximum number of bytes of the answer to a push without its large parts, before its mappings are known.
    public static func answer(to push: PushRequest) -> Int {
        let mutations = push.entries.lazy.compactMap(\.mutation)
        let named = mutations.reduce(0) { $0 + 1 + $1.references.count + $1.dependencyIDs.count }
        // ids that several mutations name are counted once, but only if the difference matters
        let isLong = named > 4 * push.entries.count
        return answer(entries: push.entries.count, mappings: isLong ? TouchedMappings(push).clientIDs.count : named)
    }
}

/// The number of workers that share the light jobs.
///
/// Most of a small group's cost does not depend on its jobs, so only two workers share a small load. One of them
/// prepares its group while the database works for the other. With a greater load, groups are large anyway, and
/// additional workers use additional cores of the database.
public struct ActiveWorkerCount: Sendable {
    private let most: Int
    private let weightPerWorker: Int
    /// The weight of the jobs that wait or are being committed.
    private var load = 0
    /// The load, which follows increases immediately and decreases slowly.
    ///
    /// At the end of each commit, the load is low for a moment.
    private var smoothedLoad = 0.0

    public init(most: Int, limits: GroupLimits) {
        self.most = most
        weightPerWorker = limits.weightPerWorker
    }

    /// The number of workers that share the jobs; at least one.
    public var count: Int { min(most, 2 + Int(smoothedLoad) / weightPerWorker) }

    public mutating func add(_ weight: Int) {
        load += weight
        smoothedLoad = max(Double(load), smoothedLoad - (smoothedLoad - Double(load)) / 64)
    }

    /// Records that jobs were committed or abandoned.
    public mutating func remove(_ weight: Int) { load -= weight }
}
