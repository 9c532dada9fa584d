package import CoreMetrics
import Synchronization

/// All metrics of the process, which a Prometheus server can scrape as text.
///
/// The text is in exposition format 0.0.4. This repository does not use swift-prometheus, because the format is small.
/// Looking up a handler takes a lock that all handlers share, but a handler counts without this lock. Callers should
/// therefore keep references to handlers.
///
/// A metric has at most ``seriesLimit`` label sets. All further label sets are counted in one series with the label
/// `overflow="true"`. `sluice_metrics_dropped_series_total` counts the look-ups that returned this series, and the
/// look-ups that found a metric of another kind under the name.
package final class PrometheusRegistry: Sendable {
    /// The `Content-Type` of the text that ``render(into:)`` writes.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// The maximum number of label sets of a metric, without the overflow series.
    package let seriesLimit: Int

    private struct Description {
        var help: String
        var kind: MetricKind?
        var buckets: [Double]?
    }

    private struct State {
        var descriptions: [String: Description] = [:]
        var families: [String: MetricFamily] = [:]
        var collectors: [@Sendable (PrometheusRegistry) -> Void] = []
    }

    private let state = Mutex(State())
    private let dropped: CounterCell

    /// - Parameter seriesLimit: the maximum number of label sets of a metric; at least 1.
    package init(seriesLimit: Int = 1_000) {
        self.seriesLimit = max(1, seriesLimit)
        let name = "sluice_metrics_dropped_series_total"
        let help =
            "Look-ups of a series that were not counted under their labels: too many label sets, or the name belongs "
            + "to another kind of metric."
        var family = MetricFamily(name: name, kind: .counter, help: help)
        let dropped = CounterCell()
        family.adopt(dropped)
        self.dropped = dropped
        state.withLock { $0.families[name] = family }
    }

    /// Describes a metric. Call this method before the metric's first use. A later call has no effect on the output.
    ///
    /// - Parameters:
    ///   - name: the exposed name, which ends in `_total` or the unit.
    ///   - kind: the metric's kind. If it is not nil, metrics of other kinds cannot use the name.
    ///   - help: one sentence for the reader of a dashboard.
    ///   - buckets: for histograms, the upper bounds. They are sorted, and duplicates and infinities are removed.
    package func describe(_ name: String, kind: MetricKind? = nil, help: String, buckets: [Double]? = nil) {
        let bounds = buckets.map { Set($0.filter(\.isFinite)).sorted() }
        state.withLock {
            $0.descriptions[MetricNames.metric(name)] = Description(help: help, kind: kind, buckets: bounds)
        }
    }

    /// Runs `collect` at the start of every scrape, on the scraper's thread.
    ///
    /// `collect` copies numbers that are counted elsewhere, such as a pool's size or the kernel's counters, by
    /// ``setGauge(_:_:to:)`` and ``setCounter(_:_:to:)``. The closure must not wait.
    package func onScrape(_ collect: @escaping @Sendable (_ registry: PrometheusRegistry) -> Void) {
        state.withLock { $0.collectors.append(collect) }
    }

    /// Sets a gauge by name. Call this method only in collectors. Other code uses a `Gauge` or a `Meter`.
    package func setGauge(_ name: String, _ labels: [(String, String)] = [], to value: Double) {
        gauge(name, labels).set(value)
    }

    /// Sets all given series of a gauge at the same time, and removes the gauge's other series.
    ///
    /// Use this method in collectors whose labels change. If a metric of another kind has this name, nothing changes.
    package func setGauges(_ name: String, _ values: [(labels: [(String, String)], value: Double)]) {
        let series = values.map { (LabelSet($0.labels), $0.value) }
        let name = MetricNames.exposed(name, as: .gauge)
        state.withLock { state in
            let help = state.descriptions[name]?.help ?? Self.undescribed
            var family = state.families[name] ?? MetricFamily(name: name, kind: .gauge, help: help)
            guard family.kind == .gauge else { return }
            family.replaceGauges(series, limit: seriesLimit)
            state.families[name] = family
        }
    }

    /// Sets a counter to a total that is counted elsewhere. Call this method only in collectors.
    ///
    /// The total should never decrease while the process runs.
    package func setCounter(_ name: String, _ labels: [(String, String)] = [], to total: Double) {
        counter(name, labels).set(total)
    }

    /// Adds a gauge that is set at every scrape. If `value` returns nil, the previous value is kept.
    package func addGauge(_ name: String, _ help: String, _ value: @escaping @Sendable () -> Double?) {
        describe(name, kind: .gauge, help: help)
        onScrape { registry in value().map { registry.setGauge(name, to: $0) } }
    }

    /// Adds a gauge whose series, one for each value of a label, are set at every scrape.
    ///
    /// Series without a new value are removed.
    package func addGauge(
        _ name: String,
        _ help: String,
        by label: String,
        _ values: @escaping @Sendable () -> [String: Double]
    ) {
        describe(name, kind: .gauge, help: help)
        onScrape { registry in
            registry.setGauges(name, values().map { (labels: [(label, $0.key)], value: $0.value) })
        }
    }

    /// Adds a counter that is set at every scrape to a total that is counted elsewhere.
    ///
    /// If `total` returns nil, the previous total is kept.
    package func addCounter(_ name: String, _ help: String, _ total: @escaping @Sendable () -> Double?) {
        describe(name, kind: .counter, help: help)
        onScrape { registry in total().map { registry.setCounter(name, to: $0) } }
    }

    /// Returns a counter's present total; 0 if nothing has been counted yet.
    package func total(_ name: String, _ labels: [(String, String)]) -> Double {
        let name = MetricNames.exposed(name, as: .counter)
        let cell = state.withLock { $0.families[name]?.series[LabelSet(labels)] }
        return (cell as? CounterCell)?.total ?? 0
    }

    // MARK: - Cells

    func counter(_ name: String, _ labels: [(String, String)]) -> CounterCell {
        cell(MetricNames.exposed(name, as: .counter), labels)
    }

    func gauge(_ name: String, _ labels: [(String, String)]) -> GaugeCell {
        cell(MetricNames.exposed(name, as: .gauge), labels)
    }

    /// Returns the cell of a series. Only this method creates series.
    ///
    /// If a metric of another kind has the name, the result is a new cell that is not exposed. Two kinds under one name
    /// would make the whole text unreadable.
    ///
    /// - Parameter buckets: the bounds of a histogram without a description.
    func cell<Cell: MetricCell>(_ name: String, _ dimensions: [(String, String)], buckets: [Double] = []) -> Cell {
        let labels = LabelSet(dimensions)
        let found: (cell: Cell, isOverflow: Bool)? = state.withLock { state in
            let described = state.descriptions[name]
            if state.families[name] == nil, described?.kind == nil || described?.kind == Cell.kind {
                let help = described?.help ?? Self.undescribed
                let bounds = described?.buckets ?? buckets
                state.families[name] = MetricFamily(name: name, kind: Cell.kind, help: help, buckets: bounds)
            }
            return state.families[name]?.cell(for: labels, limit: seriesLimit)
        }
        if found?.isOverflow ?? true { dropped.increment(by: Int64(1)) }
        return found?.cell ?? Cell(bounds: buckets)
    }

    private static let undescribed = "Not described."

    /// Removes the series of a handler that its owner has destroyed.
    func remove(_ object: AnyObject) {
        state.withLock { state in
            for name in state.families.keys { state.families[name]?.remove(object) }
        }
    }

    // MARK: - Text

    /// Appends the text of all metrics, sorted by name and labels. Runs the collectors first.
    package func render(into bytes: inout [UInt8]) {
        for collect in state.withLock({ $0.collectors }) { collect(self) }
        // The families are copied, so that another thread can create a handler while the text is written.
        let families = state.withLock { $0.families }
        for family in families.values.sorted(by: { $0.name < $1.name }) where !family.series.isEmpty {
            PrometheusText.appendHeader(family.name, kind: family.kind, help: family.help, to: &bytes)
            for (labels, cell) in family.series.sorted(by: { $0.key.text < $1.key.text }) {
                cell.append(family.name, labels: labels, to: &bytes)
            }
        }
    }

    /// Returns the text of all metrics that ``render(into:)`` appends.
    package func renderText() -> String {
        var bytes: [UInt8] = []
        render(into: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }
}

// MARK: - PrometheusMetricsFactory

/// The swift-metrics backend, which counts in a ``PrometheusRegistry``.
///
/// `Counter` and `FloatingPointCounter` are counters (`_total` is added to names without this suffix). `Meter` and
/// `Gauge` are gauges. `Recorder` is a histogram, and `Timer` is a histogram in seconds (`_seconds` is added to names
/// without this suffix). Handlers with the same name and labels share a series. If one of these handlers is destroyed,
/// scrapes no longer contain the series.
package struct PrometheusMetricsFactory: MetricsFactory {
    package let registry: PrometheusRegistry

    /// Creates a factory for `MetricsSystem.bootstrap`.
    package init(_ registry: PrometheusRegistry) {
        self.registry = registry
    }

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        registry.counter(label, dimensions)
    }

    package func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        registry.counter(label, dimensions)
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        registry.gauge(label, dimensions)
    }

    /// Creates a histogram or, if `aggregate` is false, a gauge, because swift-metrics creates a `Gauge` as a recorder
    /// without aggregation.
    package func makeRecorder(
        label: String,
        dimensions: [(String, String)],
        aggregate: Bool
    ) -> any RecorderHandler {
        guard aggregate else { return registry.gauge(label, dimensions) }
        return histogram(MetricNames.exposed(label, as: .histogram), dimensions, MetricBuckets.counts)
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        histogram(MetricNames.timer(label), dimensions, MetricBuckets.seconds)
    }

    private func histogram(_ name: String, _ dimensions: [(String, String)], _ buckets: [Double]) -> HistogramCell {
        registry.cell(name, dimensions, buckets: buckets)
    }

    package func destroyCounter(_ handler: any CounterHandler) { registry.remove(handler) }
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { registry.remove(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { registry.remove(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { registry.remove(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { registry.remove(handler) }
}

// MARK: - PrometheusText

/// The parts of the text exposition format 0.0.4: escaping, numbers, lines.
enum PrometheusText {
    /// Appends escaped text.
    ///
    /// Backslashes and line feeds are always escaped. Double quotes are escaped only in label values.
    static func appendEscaped(_ text: String, quotes: Bool, to bytes: inout [UInt8]) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): bytes.append(contentsOf: #"\\"#.utf8)
            case UInt8(ascii: "\n"): bytes.append(contentsOf: #"\n"#.utf8)
            case UInt8(ascii: "\"") where quotes: bytes.append(contentsOf: #"\""#.utf8)
            default: bytes.append(byte)
            }
        }
    }

    /// Returns the text of a number. Whole numbers have no fraction.
    ///
    /// As a result, `le="1"` has the same form as in other exporters.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if value.magnitude < 9_007_199_254_740_992, value == value.rounded() { return String(Int64(value)) }
        return value.description
    }

    static func appendHeader(_ name: String, kind: MetricKind, help: String, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: "# HELP \(name) ".utf8)
        appendEscaped(help, quotes: false, to: &bytes)
        bytes.append(contentsOf: "\n# TYPE \(name) \(kind.rawValue)\n".utf8)
    }

    static func appendSample(
        _ name: String,
        suffix: String = "",
        labels: LabelSet,
        bound: String? = nil,
        value: String,
        to bytes: inout [UInt8]
    ) {
        bytes.append(contentsOf: name.utf8)
        bytes.append(contentsOf: suffix.utf8)
        if !labels.text.isEmpty || bound != nil {
            bytes.append(UInt8(ascii: "{"))
            bytes.append(contentsOf: labels.text.utf8)
            if let bound {
                if !labels.text.isEmpty { bytes.append(UInt8(ascii: ",")) }
                bytes.append(contentsOf: "le=\"\(bound)\"".utf8)
            }
            bytes.append(UInt8(ascii: "}"))
        }
        bytes.append(UInt8(ascii: " "))
        bytes.append(contentsOf: value.utf8)
        bytes.append(UInt8(ascii: "\n"))
    }
}
