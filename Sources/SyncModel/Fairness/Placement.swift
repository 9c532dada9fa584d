/// The partition or shard that stores an organization's rows.
///
/// The value is used to batch writes to the same partition or shard.
public enum Placement: Sendable, Hashable {
    /// A partition of each table.
    ///
    /// Writes of rows in the same partition are fastest if they are made together, but this is not required.
    case partition(Int)
    /// A shard of a Citus cluster, which has several PostgreSQL servers. Only rows of organizations in the same shard
    /// are written together.
    ///
    /// Different shards may be on different servers, and a transaction should involve only one server. After a shard
    /// was split, the number may be outdated, and the database may refuse groups for this reason. Refused groups are
    /// halved, which is slower but has no other effect.
    case shard(Int)

    /// The number of the partition or the shard. It selects the committer that writes the rows.
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
