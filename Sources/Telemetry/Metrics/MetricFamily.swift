/// One metric, with its name and kind, and a cell for each of its label sets.
struct MetricFamily {
    let name: String
    let kind: MetricKind
    let help: String
    var buckets: [Double] = []
    private(set) var series: [LabelSet: any MetricCell] = [:]

    /// Returns the cell for these labels, which is created on first use.
    ///
    /// Beyond the limit, it is the cell of the overflow series. Nil if the metric has another kind.
    mutating func cell<Cell: MetricCell>(for labels: LabelSet, limit: Int) -> (cell: Cell, isOverflow: Bool)? {
        guard kind == Cell.kind else { return nil }
        let isOverflow = series[labels] == nil && series.count >= limit
        let labels = isOverflow ? .overflow : labels
        let cell = series[labels] ?? Cell(bounds: buckets)
        series[labels] = cell
        return (cell as? Cell).map { ($0, isOverflow) }
    }

    /// Uses an existing counter as the series without labels.
    mutating func adopt(_ counter: CounterCell) { series[LabelSet([])] = counter }

    /// Replaces all series of the gauge by the given values, at most `limit` of them.
    mutating func replaceGauges(_ values: [(labels: LabelSet, value: Double)], limit: Int) {
        series = [:]
        for (labels, value) in values.prefix(limit) {
            let gauge = GaugeCell()
            gauge.set(value)
            series[labels] = gauge
        }
    }

    /// Removes the series of `object`, which no longer counts towards the limit.
    mutating func remove(_ object: AnyObject) {
        if let labels = series.first(where: { $0.value === object })?.key { series[labels] = nil }
    }
}

/// A metric's kind, with the names of the exposition format.
package enum MetricKind: String, Sendable {
    /// A number that only grows while the process runs.
    case counter
    /// A number that can increase and decrease.
    case gauge
    /// For each of several fixed bounds, the number of observations up to this bound. The count and the sum of all
    /// observations are included.
    case histogram
}

/// The labels of one series, as they are written between the braces of a sample.
///
/// For example `method="GET",status="200"`. The labels are sorted by name, so label sets that differ only in the order
/// are the same series. The text is escaped once, when the series is created, and not at each scrape.
struct LabelSet: Hashable, Sendable {
    let text: String

    /// Creates a label set. If two labels have the same name after sanitizing, the first is used.
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

    /// The labels of the series in which all label sets beyond a metric's limit are counted.
    static let overflow = LabelSet([("overflow", "true")])
}

/// The names that the exposition format allows, and the conversion of other names.
///
/// Libraries name their metrics with dots (`http.server.requests`), which version 0.0.4 of the format does not allow.
/// An invalid name is never an error, because the process must not stop because of a name.
enum MetricNames {
    /// A valid metric name that resembles `text`. Every character that is not allowed becomes `_`.
    ///
    /// `[a-zA-Z_:][a-zA-Z0-9_:]*`
    static func metric(_ text: String) -> String {
        sanitized(text, colons: true)
    }

    /// The name under which a metric of this kind is exposed: the names of counters end in `_total`.
    static func exposed(_ text: String, as kind: MetricKind) -> String {
        let name = metric(text)
        return kind == .counter && !name.hasSuffix("_total") ? name + "_total" : name
    }

    /// The name under which a timer is exposed, with the base unit as its suffix.
    static func timer(_ text: String) -> String {
        let name = metric(text)
        return name.hasSuffix("_seconds") ? name : name + "_seconds"
    }

    /// A valid label name, `[a-zA-Z_][a-zA-Z0-9_]*`.
    ///
    /// It differs from the reserved names of Prometheus: `le`, and names that begin with two underscores.
    static func label(_ text: String) -> String {
        let name = sanitized(text, colons: false)
        return name == "le" || name.hasPrefix("__") ? "exported_" + name : name
    }

    private static func sanitized(_ text: String, colons: Bool) -> String {
        if isClean(text, colons: colons) { return text }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count + 1)
        for byte in text.utf8 {
            // A continuation byte belongs to a character that was already replaced by an underscore.
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
