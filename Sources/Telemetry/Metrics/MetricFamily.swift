/// One metric: its name, its kind, and a cell for each label set.
struct MetricFamily {
    let name: String
    let kind: MetricKind
    let help: String
    var buckets: [Double] = []
    private(set) var series: [LabelSet: any MetricCell] = [:]

    /// Returns the cell for these labels. The cell is created at its first use.
    ///
    /// If the metric already has `limit` label sets, the result for a new label set is the cell of the overflow series.
    /// Nil if the metric has another kind.
    mutating func cell<Cell: MetricCell>(for labels: LabelSet, limit: Int) -> (cell: Cell, isOverflow: Bool)? {
        guard kind == Cell.kind else { return nil }
        let isOverflow = series[labels] == nil && series.count >= limit
        let labels = isOverflow ? .overflow : labels
        let cell = series[labels] ?? Cell(bounds: buckets)
        series[labels] = cell
        return (cell as? Cell).map { ($0, isOverflow) }
    }

    /// Adds an existing counter as the series without labels.
    mutating func adopt(_ counter: CounterCell) { series[LabelSet([])] = counter }

    /// Replaces all series of the gauge by the given values. Values beyond `limit` are ignored.
    mutating func replaceGauges(_ values: [(labels: LabelSet, value: Double)], limit: Int) {
        series = [:]
        for (labels, value) in values.prefix(limit) {
            let gauge = GaugeCell()
            gauge.set(value)
            series[labels] = gauge
        }
    }

    /// Removes the series whose cell is `object`. The series then no longer counts towards the limit.
    mutating func remove(_ object: AnyObject) {
        if let labels = series.first(where: { $0.value === object })?.key { series[labels] = nil }
    }
}

/// A metric's kind. The raw values are the names in the exposition format.
package enum MetricKind: String, Sendable {
    /// A number that only grows while the process runs.
    case counter
    /// A number that can increase and decrease.
    case gauge
    /// Several fixed bounds, each with the number of observations up to the bound, and the count and the sum of all
    /// observations.
    case histogram
}

/// The labels of one series, in the text form that a sample has between its braces.
///
/// An example is `method="GET",status="200"`. The labels are sorted by name, so that the order in which a caller lists
/// the labels makes no difference. The text is escaped once, when the series is created, and not at each scrape.
struct LabelSet: Hashable, Sendable {
    let text: String

    /// Creates a label set. If two labels have the same name after their conversion to valid names, the first label is
    /// used.
    init(_ dimensions: [(String, String)]) {
        guard !dimensions.isEmpty else {
            self.text = ""
            return
        }
        var labels: [(name: String, value: String)] = []
        for (name, value) in dimensions {
            let name = MetricNames.label(name)
            if labels.contains(where: { $0.name == name }) { continue }
            labels.append((name, value))
        }
        labels.sort { $0.name < $1.name }
        var bytes: [UInt8] = []
        for (index, label) in labels.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes.append(contentsOf: label.name.utf8)
            bytes.append(contentsOf: "=\"".utf8)
            PrometheusText.appendEscaped(label.value, quotes: true, to: &bytes)
            bytes.append(UInt8(ascii: "\""))
        }
        self.text = String(decoding: bytes, as: UTF8.self)
    }

    /// The labels of the overflow series, which counts all label sets beyond a metric's limit.
    static let overflow = LabelSet([("overflow", "true")])
}

/// The names that the exposition format allows, and the conversion of other names.
///
/// Libraries name their metrics with dots (`http.server.requests`), which version 0.0.4 of the format does not allow.
/// An invalid name is converted and never an error, because a name must not stop the process.
enum MetricNames {
    /// Returns a valid metric name, in which every character of `text` that is not allowed is replaced by `_`.
    ///
    /// Valid names match `[a-zA-Z_:][a-zA-Z0-9_:]*`.
    static func metric(_ text: String) -> String {
        sanitized(text, colons: true)
    }

    /// Returns the name under which a metric of this kind is exposed. The names of counters end in `_total`.
    static func exposed(_ text: String, as kind: MetricKind) -> String {
        let name = metric(text)
        return kind == .counter && !name.hasSuffix("_total") ? name + "_total" : name
    }

    /// Returns the name under which a timer is exposed. The name ends in the base unit.
    static func timer(_ text: String) -> String {
        let name = metric(text)
        return name.hasSuffix("_seconds") ? name : name + "_seconds"
    }

    /// Returns a valid label name, `[a-zA-Z_][a-zA-Z0-9_]*`.
    ///
    /// The result is never a reserved name of Prometheus, such as `le` or a name that begins with two underscores.
    static func label(_ text: String) -> String {
        let name = sanitized(text, colons: false)
        return name == "le" || name.hasPrefix("__") ? "exported_" + name : name
    }

    private static func sanitized(_ text: String, colons: Bool) -> String {
        if isClean(text, colons: colons) { return text }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count + 1)
        for byte in text.utf8 {
            // Skip continuation bytes of UTF-8, because their character was already replaced by one underscore.
            if byte & 0xC0 == 0x80 { continue }
            if bytes.isEmpty, isDigit(byte) { bytes.append(UInt8(ascii: "_")) }
            bytes.append(isAllowed(byte, colons: colons) ? byte : UInt8(ascii: "_"))
        }
        return bytes.isEmpty ? "_" : String(decoding: bytes, as: UTF8.self)
    }

    private static func isClean(_ text: String, colons: Bool) -> Bool {
        guard let first = text.utf8.first, !isDigit(first) else { return false }
        return text.utf8.allSatisfy { isAllowed($0, colons: colons) }
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    private static func isAllowed(_ byte: UInt8, colons: Bool) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: ":"): colons
        default: false
        }
    }
}
