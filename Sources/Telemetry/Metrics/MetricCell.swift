/// The memory behind a series, shared by all who ask for the same name and labels.
protocol MetricCell: AnyObject, Sendable {
    static var kind: MetricKind { get }

    /// - Parameter bounds: a histogram's buckets; the others have none.
    init(bounds: [Double])
    func append(_ name: String, labels: LabelSet, to bytes: inout [UInt8])
}
