/// The number of desks that share the light jobs.
///
/// Most of a small group's cost does not depend on its jobs. So little load goes to two desks: one prepares its group
/// while the database works for the other. With more load, groups are large anyway, and further desks use further cores
/// of the database.
public struct ActiveWorkerCount: Sendable {
    private let most: Int
    private let weightPerDesk: Int
    /// The weight of the jobs that wait or are being committed.
    private var load = 0
    /// The load, followed upwards at once and downwards slowly.
    ///
    /// Each commit ends with little load.
    private var usual = 0.0

    public init(most: Int, limits: GroupLimits) {
        self.most = most
        weightPerDesk = limits.weightPerDesk
    }

    /// The desks that take part: at least one.
    public var count: Int { min(most, 2 + Int(usual) / weightPerDesk) }

    public mutating func add(_ weight: Int) {
        load += weight
        usual = max(Double(load), usual - (usual - Double(load)) / 64)
    }

    /// Records that jobs were committed, or given up.
    public mutating func remove(_ weight: Int) { load -= weight }
}
