/// The labels of one series, as in the braces of a sample.
///
/// For example `method="GET",status="200"`. Sorted by name, so the same labels in another order are the same series;
/// the text is escaped once, when the series is made, and not at each scrape.
struct LabelSet: Hashable, Sendable {
    let text: String

    /// Of two labels that have the same name after sanitizing, the first one stays.
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

    /// The labels of the series that counts for a metric beyond its limit of series.
    static let overflow = LabelSet([("overflow", "true")])
}
