/// The number of workers that share the light jobs.
///
/// Most of a small group's cost does not depend on its jobs. So little load goes to two workers: one prepares its group
/// while the database works for the other. With more load, groups are large anyway, and further workers use further
/// cores of the database.
public struct ActiveWorkerCount: Sendable {
    private let most: Int
    private let weightPerWorker: Int
    /// The weight of the jobs that wait or are being committed.
    private var load = 0
    /// The load, followed upwards at once and downwards slowly.
    ///
    /// Each commit ends with little load.
    private var smoothedLoad = 0.0

    public init(most: Int, limits: GroupLimits) {
        self.most = most
        weightPerWorker = limits.weightPerWorker
    }

    /// The workers that take part: at least one.
    public var count: Int { min(most, 2 + Int(smoothedLoad) / weightPerWorker) }

    public mutating func add(_ weight: Int) {
        load += weight
        smoothedLoad = max(Double(load), smoothedLoad - (smoothedLoad - Double(load)) / 64)
    }

    /// Records that jobs were committed, or given up.
    public mutating func remove(_ weight: Int) { load -= weight }
}
