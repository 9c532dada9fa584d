/// What a connection was asked to do.
public struct Traffic: Sendable, Equatable {
    /// Statements, `BEGIN` and `COMMIT` among them; what prepares one at its first use is not.
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
