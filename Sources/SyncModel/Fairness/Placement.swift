/// The partition or shard that stores an organization's rows.
///
/// It is used to batch writes to the same partition or shard.
public enum Placement: Sendable, Hashable {
    /// A partition of each table. Rows of one partition are best written together; rows of several can be.
    case partition(Int)
    /// A shard of a cluster: only organizations of one shard are written together.
    ///
    /// Each shard is on its own server, and a transaction should not involve a second server. After a shard was split,
    /// an outdated number makes groups that the database refuses; they are then halved. This is slower and has no other
    /// effect.
    case shard(Int)

    /// The number by which a worker is chosen.
    public var number: Int {
        switch self {
        case .partition(let number), .shard(let number): number
        }
    }

    /// The shard, where there are any.
    public var shard: Int? {
        if case .shard(let number) = self { number } else { nil }
    }
}
