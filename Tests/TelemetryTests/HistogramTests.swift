import CoreMetrics
import Testing

@testable import Telemetry

@Suite("Histograms")
struct HistogramTests {
    let registry = PrometheusRegistry()
    var factory: PrometheusMetricsFactory { PrometheusMetricsFactory(registry) }

    @Test
    func `Buckets are cumulative, bounds inclusive, and the last one is +Inf`() {
        registry.describe("batch", kind: .histogram, help: "Sizes.", buckets: [10, 1, 5, 5, .infinity])
        let recorder = factory.makeRecorder(label: "batch", dimensions: [("kind", "a")], aggregate: true)
        for value: Int64 in [0, 1, 2, 5, 10, 11, 1_000] { recorder.record(value) }
        #expect(
            registry.samples("batch") == [
                #"batch_bucket{kind="a",le="1"} 2"#, #"batch_bucket{kind="a",le="5"} 4"#,
                #"batch_bucket{kind="a",le="10"} 5"#, #"batch_bucket{kind="a",le="+Inf"} 7"#,
                #"batch_sum{kind="a"} 1029"#, #"batch_count{kind="a"} 7"#,
            ]
        )
        #expect(
            registry.samples("# ").filter { $0.contains(" batch ") } == [
                "# HELP batch Sizes.", "# TYPE batch histogram",
            ]
        )
    }

    @Test
    func `Timers are in seconds, as their name states`() {
        registry.describe("push_duration_seconds", help: "Time.", buckets: [0.001, 0.1])
        let timer = factory.makeTimer(label: "push.duration", dimensions: [])
        timer.recordNanoseconds(1_000_000)
        timer.recordNanoseconds(250_000_000)
        #expect(
            registry.samples("push_duration_seconds") == [
                #"push_duration_seconds_bucket{le="0.001"} 1"#, #"push_duration_seconds_bucket{le="0.1"} 1"#,
                #"push_duration_seconds_bucket{le="+Inf"} 2"#, "push_duration_seconds_sum 0.251",
                "push_duration_seconds_count 2",
            ]
        )
    }

    @Test
    func `Infinities are observed, NaN is not`() {
        registry.describe("x", help: "X.", buckets: [1])
        let recorder = factory.makeRecorder(label: "x", dimensions: [], aggregate: true)
        recorder.record(Double.nan)
        recorder.record(-Double.infinity)
        #expect(registry.samples("x_bucket") == [#"x_bucket{le="1"} 1"#, #"x_bucket{le="+Inf"} 1"#])
        #expect(registry.samples("x_sum") == ["x_sum -Inf"])
    }
}
