import Metrics
import Telemetry

/// Lets every gateway of this process count in a registry of its own, though swift-metrics knows one factory: what is
/// made while a gateway is made counts in ``registry`` of that task.
struct GatewayMetrics: MetricsFactory {
    @TaskLocal static var registry = PrometheusRegistry()

    /// Puts the factory in force, once.
    static let bootstrap: Void = MetricsSystem.bootstrap(GatewayMetrics())

    private var factory: PrometheusMetricsFactory { PrometheusMetricsFactory(Self.registry) }

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        factory.makeCounter(label: label, dimensions: dimensions)
    }

    func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        factory.makeFloatingPointCounter(label: label, dimensions: dimensions)
    }

    func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        factory.makeMeter(label: label, dimensions: dimensions)
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        factory.makeRecorder(label: label, dimensions: dimensions, aggregate: aggregate)
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        factory.makeTimer(label: label, dimensions: dimensions)
    }

    // no gateway takes a series back
    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    func destroyMeter(_ handler: any MeterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}
}
