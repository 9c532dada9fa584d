/// How fast retention runs: very short batches, with pauses between them.
///
/// The pauses grow when other work needs the database.
///
/// A batch holds the lanes of its rows, so clients that push to one of them wait for it: its size is such that it takes
/// about ``aim``. Under load nine tenths of the time are left to other work, otherwise half.
public struct RetentionPace: Sendable, Hashable {
    /// How long a batch should take, in seconds.
    public static let aim = 0.02
    /// Rows of a batch.
    public static let limits = 50...2_000
    /// Pauses, in seconds.
    static let pauses = 0.001...5.0

    /// Rows that the next batch may have.
    public private(set) var limit = 200
    /// The least time that a row has cost, in seconds.
    ///
    /// Forgotten slowly, since rows differ.
    private var best: Double?

    public init() {}

    /// Takes in the duration of a batch.
    ///
    /// - Parameters:
    ///   - seconds: how long it took.
    ///   - rows: how many rows it had.
    ///   - waiting: pushes that waited for this process's committers when it ended.
    /// - Returns: how long to pause, in seconds.
    public mutating func pause(after seconds: Double, rows: Int, waiting: Int) -> Double {
        let isBusy = waiting > 0 || isSlow(seconds, rows)
        if seconds > Self.aim * 1.5 {
            limit = max(Self.limits.lowerBound, limit / 2)
        } else if seconds < Self.aim * 0.75, rows >= limit {
            limit = min(Self.limits.upperBound, limit * 5 / 4)
        }
        let pause = seconds * (isBusy ? 9 : 1)
        return min(max(pause, Self.pauses.lowerBound), Self.pauses.upperBound)
    }

    /// Whether rows cost over three times their best: other work uses the database.
    private mutating func isSlow(_ seconds: Double, _ rows: Int) -> Bool {
        // a few rows prove nothing: most of their time is the commit's
        guard rows >= Self.limits.lowerBound else { return false }
        let each = seconds / Double(rows)
        let known = best.map { min($0 * 1.01, each) } ?? each
        best = min(known, each)
        return each > 3 * known
    }
}
