/// The partition or shard that stores an organization's rows.
///
/// It is used to batch writes to the same partition or shard.
public enum Placement: Sendable, Hashable {
    /// A partition of each table. Writing rows of the same partition together is fastest, but is not required.
    case partition(Int)
    /// A shard of a cluster. Only organizations of the same shard are written together.
    ///
    /// Each shard is on its own server, and a transaction should not involve a second server. After a shard was split,
    /// an outdated number leads to groups that the database refuses. Such groups are halved, which is slower but has no
    /// other effect.
    case shard(Int)

    /// The number that selects the worker.
    public var number: Int {
        switch self {
        case .partition(let number), .shard(let number): number
        }
    }

    /// The shard; nil for a partition.
    public var shard: Int? {
        if case .shard(let number) = self { number } else { nil }
    }
}
