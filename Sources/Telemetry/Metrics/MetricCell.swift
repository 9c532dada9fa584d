/// The memory behind a series, shared by all callers with the same name and labels.
protocol MetricCell: AnyObject, Sendable {
    static var kind: MetricKind { get }

    /// - Parameter bounds: a histogram's buckets; empty for other kinds.
    init(bounds: [Double])
    func append(_ name: String, labels: LabelSet, to bytes: inout [UInt8])
}
