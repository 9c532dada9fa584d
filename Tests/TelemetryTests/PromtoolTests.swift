import CoreMetrics
import TestSupport
import Testing

@testable import Telemetry

@Suite("Prometheus's checker")
struct PromtoolTests {
    @Test(
        .enabled(if: Promtool.path != nil, "promtool is not installed (scripts/bootstrap --tests)")
    )
    func `promtool check metrics accepts the page without remarks`() async throws {
        let registry = PrometheusRegistry(seriesLimit: 5)
        let factory = PrometheusMetricsFactory(registry)
        registry.addProcessMetrics()
        registry.describe("sluice_pushes_total", kind: .counter, help: "Pushes \\ with a \"quote\"\nand a line.")
        registry.describe("sluice_batch_mutations", help: "Mutations a batch.", buckets: MetricBuckets.counts)
        registry.describe("sluice_level_ratio", help: "A ratio.")
        for index in 0..<9 {
            factory.makeCounter(label: "sluice_pushes", dimensions: [("route", "/v1/\"\\\n\(index)")]).increment(by: 1)
        }
        factory.makeRecorder(label: "sluice_batch_mutations", dimensions: [], aggregate: true).record(Int64(7))
        factory.makeTimer(label: "http.server.duration", dimensions: [("le", "1"), ("é", "ü")]).recordNanoseconds(5)
        for (name, value) in [
            ("nan", Double.nan), ("up", .infinity), ("down", -.infinity), ("tiny", .leastNonzeroMagnitude),
        ] {
            factory.makeMeter(label: "sluice_level_ratio", dimensions: [("k", name)]).set(value)
        }
        #expect(try await Promtool.remarks(on: Array(registry.renderText().utf8)) == "")
    }
}
