/// One metric: its name and kind, and a cell for each of its label sets.
struct MetricFamily {
    /// The memory behind a series; its case says the metric's kind.
    enum Cell {
        case counter(CounterCell)
        case gauge(GaugeCell)
        case histogram(HistogramCell)

        /// What a caller holds; compared when a caller gives its handler back.
        var object: AnyObject {
            switch self {
            case .counter(let cell): cell
            case .gauge(let cell): cell
            case .histogram(let cell): cell
            }
        }

        func append(_ name: String, labels: LabelSet, to bytes: inout [UInt8]) {
            switch self {
            case .counter(let cell): PrometheusText.appendSample(name, labels: labels, value: cell.text, to: &bytes)
            case .gauge(let cell): PrometheusText.appendSample(name, labels: labels, value: cell.text, to: &bytes)
            case .histogram(let cell): cell.append(name, labels: labels, to: &bytes)
            }
        }
    }

    let name: String
    let kind: MetricKind
    let help: String
    let buckets: [Double]
    private(set) var series: [LabelSet: Cell] = [:]

    init(name: String, kind: MetricKind, help: String, buckets: [Double]) {
        self.name = name
        self.kind = kind
        self.help = help
        self.buckets = buckets
    }

    /// The cell for these labels, made on first use; the overflow series' cell (`overflowed`) for a label set that
    /// would be one too many.
    mutating func cell(for labels: LabelSet, limit: Int) -> (cell: Cell, overflowed: Bool) {
        if let known = series[labels] { return (known, false) }
        if series.count < limit { return (makeCell(for: labels), false) }
        return (series[.overflow] ?? makeCell(for: .overflow), true)
    }

    /// Shows a counter that was made elsewhere as the series without labels.
    mutating func adopt(_ counter: CounterCell) {
        series[LabelSet([])] = .counter(counter)
    }

    /// Makes these the gauge's only series, `limit` at most.
    mutating func replaceGauges(_ values: [(labels: LabelSet, value: Double)], limit: Int) {
        series = [:]
        for (labels, value) in values.prefix(limit) {
            let gauge = GaugeCell()
            gauge.set(value)
            series[labels] = .gauge(gauge)
        }
    }

    /// Forgets the series that `object` counts for, which frees its place under the limit.
    mutating func remove(_ object: AnyObject) {
        if let labels = series.first(where: { $0.value.object === object })?.key {
            series[labels] = nil
        }
    }

    private mutating func makeCell(for labels: LabelSet) -> Cell {
        let cell = Self.detachedCell(kind, buckets: buckets)
        series[labels] = cell
        return cell
    }

    /// A cell that counts like any other and is shown nowhere.
    static func detachedCell(_ kind: MetricKind, buckets: [Double]) -> Cell {
        switch kind {
        case .counter: .counter(CounterCell())
        case .gauge: .gauge(GaugeCell())
        case .histogram: .histogram(HistogramCell(bounds: buckets))
        }
    }
}
