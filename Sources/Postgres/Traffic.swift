/// The work of a connection.
public struct Traffic: Sendable, Equatable {
    /// Statements, including `BEGIN` and `COMMIT`.
    ///
    /// The preparation of a statement at its first use does not count.
    public var statements = 0
    /// Pipelines, each of which is sent whole and then waited for.
    public var roundTrips = 0

    public init() {}

    public static func + (one: Self, other: Self) -> Self {
        var sum = one
        sum.statements += other.statements
        sum.roundTrips += other.roundTrips
        return sum
    }

    public static func - (one: Self, other: Self) -> Self {
        var difference = one
        difference.statements -= other.statements
        difference.roundTrips -= other.roundTrips
        return difference
    }
}
