package import CoreMetrics

/// Makes swift-metrics, and all its users, count in a ``PrometheusRegistry``.
///
/// `Counter` and `FloatingPointCounter` are counters (`_total` is added where it is missing), `Meter` and `Gauge`
/// gauges, `Recorder` a histogram, `Timer` a histogram in seconds (`_seconds` is added where it is missing). A series
/// that is destroyed disappears from the scrape, for all that share it.
package struct PrometheusMetricsFactory: MetricsFactory {
    package let registry: PrometheusRegistry

    /// A factory over `registry`, for `MetricsSystem.bootstrap`.
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

    /// Without `aggregate` it is a gauge, which is how swift-metrics makes its `Gauge`.
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
