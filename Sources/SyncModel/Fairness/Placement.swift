/// Where an organization's rows are.
///
/// Used to batch writes to the same partition or shard.
public enum Placement: Sendable, Hashable {
    /// In a partition of each table. Those of one partition are best written together, and those of several can be.
    case partition(Int)
    /// In a shard of a cluster: only organizations of one shard are written together.
    ///
    /// Each shard is on its own server, and a transaction should not involve a second one. An outdated number, after a
    /// shard was split, makes groups that the database refuses and that are then halved. That is slower and has no
    /// other effect.
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
