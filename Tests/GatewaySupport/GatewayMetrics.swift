package import Metrics
package import Telemetry

/// Gives every gateway of this process its own metrics registry, although swift-metrics supports only one factory.
///
/// Metrics that a task creates while it creates a gateway belong to the task's ``registry``.
package struct GatewayMetrics: MetricsFactory {
    @TaskLocal package static var registry = PrometheusRegistry()

    /// Installs the factory, once.
    package static let bootstrap: Void = MetricsSystem.bootstrap(GatewayMetrics())

    private var factory: PrometheusMetricsFactory { PrometheusMetricsFactory(Self.registry) }

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        factory.makeCounter(label: label, dimensions: dimensions)
    }

    package func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        factory.makeFloatingPointCounter(label: label, dimensions: dimensions)
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        factory.makeMeter(label: label, dimensions: dimensions)
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        factory.makeRecorder(label: label, dimensions: dimensions, aggregate: aggregate)
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        factory.makeTimer(label: label, dimensions: dimensions)
    }

    // no gateway unregisters a series
    package func destroyCounter(_ handler: any CounterHandler) {}
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    package func destroyMeter(_ handler: any MeterHandler) {}
    package func destroyRecorder(_ handler: any RecorderHandler) {}
    package func destroyTimer(_ handler: any TimerHandler) {}
}
