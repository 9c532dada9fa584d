/// A number of rows, counted no further than to a limit.
public struct BoundedCount: Sendable, Hashable {
    /// The number of rows that are counted at most, by default.
    public static let limit: Int64 = 10_000

    public let count: Int64
    /// Whether there are more than that.
    public let isMore: Bool

    /// - Parameter found: rows found, of one more than `limit` at most.
    public init(found: Int64, limit: Int64 = limit) {
        count = min(found, limit)
        isMore = found > limit
    }
}
