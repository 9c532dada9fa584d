/// Where an organization's rows are, as far as that decides with whose they are best written.
public enum Placement: Sendable, Hashable {
    /// In a partition of each table. Those of one partition are best written together, and those of several can be.
    case partition(Int)
    /// In a shard of a cluster: only those of one shard are written together, since each shard is on a server of its own
    /// and a transaction should take no second one. A number that is not true any more, after a shard was split, makes
    /// groups that the database refuses and that are then halved: slower, and no more than that.
    case shard(Int)

    /// What a desk is chosen by.
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
