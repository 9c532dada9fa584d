/// Bounds on the reads, the writes and the answer of one unit of work.
///
/// The size of a request's body does not predict the cost of the request, because a small request can refer to
/// documents of a megabyte each. The bounds apply before data are read: statements count the bytes of the rows that
/// they would return, and omit values that exceed a bound. Planners refuse a unit of work if it exceeds a bound even
/// when it is processed alone.
public enum WorkBounds {
    /// The maximum total size, in bytes, of the large parts of one answer.
    ///
    /// The large parts are entities, upstreams' bodies, stored errors and lists of blocking mutations. The size of the
    /// rest is bounded by the number of entries and id mappings in the answer.
    public static let answer = 2_097_152
    /// The maximum size, in bytes, of a value that is always part of an answer.
    ///
    /// Each mutation's row has its own copy of such a small value.
    public static let small = 2_048
    /// The number of bytes of an id in a JSON list.
    public static let listedID = 39
    /// The number of ids in a shortened list of blocking mutations. Such a list has fewer bytes than ``small``.
    public static let blockers = 32
    /// The maximum number of ids in the reason why a lane's head does not run, and in the description of the lane's
    /// head.
    public static let heldBy = 100
    /// The maximum total size, in bytes, of the documents that a group of pushes reads.
    public static let groupDocuments = 16_777_216
    /// The maximum total size, in bytes, of the documents that one push reads.
    ///
    /// The database can write this number of bytes within the time limit of a statement.
    public static let pushDocuments = 33_554_432
    /// The maximum total size, in bytes, of the large stored records that a group of pushes reads.
    ///
    /// The records are errors and upstreams' bodies. Small records are not counted.
    public static let groupRecords = 16_777_216
    /// The maximum number of grants that begin or end in a group of writes, or in one step that evaluates changed
    /// channel templates.
    ///
    /// The bound is necessary because a small document can make up to 200 grants, and each grant is a row. A grant that
    /// an entity makes both before and after its writes counts half, because it is only compared.
    public static let groupGrants = 2_000
    /// The maximum number of grants that one push begins or ends.
    ///
    /// The database can write this number of rows within half of the time limit of a statement.
    public static let pushGrants = 10_000
    /// The maximum number of stays that begin, move or end in a group of writes, or in one step that evaluates changed
    /// channel templates. A stay is the time of an entity in a channel.
    ///
    /// Each write of an entity changes a row for each of the entity's channels. An entity has up to 32 channels.
    public static let groupStays = 8_000
    /// The maximum number of stays that one push begins, moves or ends.
    ///
    /// The number is sufficient for a deletion that changes 1,000 entities in 32 channels each.
    public static let pushStays = 40_000
    /// The maximum total size, in bytes, of the documents that a preview reads and merges.
    ///
    /// The preview keeps these documents in memory while it plans.
    public static let preview = 8_388_608
    /// The maximum size, in bytes, of a body that results from a payload by a route's template, or by the replacement
    /// of client ids with server ids.
    public static let madeBody = 8_388_608
    /// The maximum total size, in bytes, of the contents that one transaction of a bulk operation reads.
    public static let bulkContents = 8_388_608
    /// The maximum total size, in bytes, of the documents that one transaction copies into the errors of discarded
    /// mutations.
    public static let discardDocuments = 1_048_576
}

/// The counts of grants and of stays that writes change.
public struct ChannelChanges: Sendable, Hashable {
    /// The number of grants that begin or end, plus half the number of grants that last.
    public var grants = 0
    /// The number of stays that begin, move or end.
    public var stays = 0

    /// The bounds of a group of writes, and of a step that evaluates changed channel templates.
    static let group = ChannelChanges(grants: WorkBounds.groupGrants, stays: WorkBounds.groupStays)
    /// The bounds of one push.
    static let push = ChannelChanges(grants: WorkBounds.pushGrants, stays: WorkBounds.pushStays)

    public init(grants: Int = 0, stays: Int = 0) {
        self.grants = grants
        self.stays = stays
    }

    /// Counts the changes when an entity's grants are replaced.
    public init(from before: Set<GrantedChannel>, to after: Set<GrantedChannel>) {
        let kept = before.intersection(after).count
        grants = before.count + after.count - 2 * kept + kept / 2
    }

    /// Whether a count is too large for a group of writes, or for a step that evaluates changed channel templates.
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
    /// The total size of the stored documents that the work reads. Each document counts once.
    public var read = 0
    /// The total size of the documents into which the work merges patches. A document counts once for each patch.
    public var merged = 0
    /// The total size of the payloads that become larger because server ids replace client ids. The sizes after the
    /// replacement are counted.
    public var rewritten = 0
    /// The number of bytes that the work writes.
    ///
    /// The number includes each patched document, and each document that is stored with a conflict.
    public var written = 0
    /// The number of bytes of the answer.
    public var answered = 0

    public init() {}

    /// The minimum number of bytes that one entry adds to an answer.
    ///
    /// The number covers a result with its names and times, but without entities.
    public static let entry = 768

    /// The maximum number of bytes of an id mapping in an answer. A mapping with an unusually long server id can be
    /// larger.
    public static let mapping = 256

    /// The size, in bytes, of the answer to a push without the answer's large parts.
    ///
    /// The large parts are entities, upstreams' bodies, long errors and long lists of blocking mutations.
    public static func answer(entries: Int, mappings: Int) -> Int {
        256 + WorkBounds.heldBy * WorkBounds.listedID + entries * entry + mappings * mapping
    }

    /// The maximum size, in bytes, of the answer to a push without its large parts.
    ///
    /// This bound is used before the mappings in the answer are known.
    public static func answer(to push: PushRequest) -> Int {
        let mutations = push.entries.lazy.compactMap(\.mutation)
        let named = mutations.reduce(0) { $0 + 1 + $1.references.count + $1.dependencyIDs.count }
        // duplicate ids are removed only if the push can contain many of them
        let isLong = named > 4 * push.entries.count
        return answer(entries: push.entries.count, mappings: isLong ? TouchedMappings(push).clientIDs.count : named)
    }
}

/// The number of workers that share the light jobs.
///
/// Only two workers share a small load, because most of the cost of a small group does not depend on its jobs. One
/// worker prepares its group while the database works for the other. With a greater load, groups are large even if more
/// workers share it, and additional workers use additional cores of the database.
public struct ActiveWorkerCount: Sendable {
    private let most: Int
    private let weightPerWorker: Int
    /// The total weight of the jobs that wait or are being committed.
    private var load = 0
    /// The smoothed load, which follows increases of the load immediately, and decreases slowly.
    ///
    /// The value is smoothed because the load is low for a moment at the end of each commit.
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
