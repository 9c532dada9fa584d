/// One metric: its name and kind, and a cell for each of its label sets.
struct MetricFamily {
    let name: String
    let kind: MetricKind
    let help: String
    var buckets: [Double] = []
    private(set) var series: [LabelSet: any MetricCell] = [:]

    /// The cell for these labels, created on first use.
    ///
    /// Beyond the limit it is the overflow series' cell. Nil for a cell of another kind.
    mutating func cell<Cell: MetricCell>(for labels: LabelSet, limit: Int) -> (cell: Cell, isOverflow: Bool)? {
        guard kind == Cell.kind else { return nil }
        let isOverflow = series[labels] == nil && series.count >= limit
        let labels = isOverflow ? .overflow : labels
        let cell = series[labels] ?? Cell(bounds: buckets)
        series[labels] = cell
        return (cell as? Cell).map { ($0, isOverflow) }
    }

    /// Shows an existing counter as the series without labels.
    mutating func adopt(_ counter: CounterCell) { series[LabelSet([])] = counter }

    /// Makes these the gauge's only series, `limit` at most.
    mutating func replaceGauges(_ values: [(labels: LabelSet, value: Double)], limit: Int) {
        series = [:]
        for (labels, value) in values.prefix(limit) {
            let gauge = GaugeCell()
            gauge.set(value)
            series[labels] = gauge
        }
    }

    /// Removes the series of `object`, which frees its place under the limit.
    mutating func remove(_ object: AnyObject) {
        if let labels = series.first(where: { $0.value === object })?.key { series[labels] = nil }
    }
}
