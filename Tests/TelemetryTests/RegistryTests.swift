import CoreMetrics
import Testing

@testable import Telemetry

@Suite("The registry")
struct RegistryTests {
    @Test
    func `External names and labels are converted to the format's alphabet`() {
        #expect(MetricNames.metric("http.server.requests") == "http_server_requests")
        #expect(MetricNames.metric("2xx:é") == "_2xx:_")
        #expect(MetricNames.metric("") == "_")
        #expect(MetricNames.label("le") == "exported_le")
        #expect(MetricNames.label("__name__") == "exported___name__")
        #expect(MetricNames.label("a:b") == "a_b")
        #expect(LabelSet([("a.b", "1"), ("a_b", "2")]).text == #"a_b="1""#)
    }

    @Test
    func `Label values and help texts are escaped`() {
        let registry = PrometheusRegistry()
        registry.describe("e", help: "back\\slash \"quotes\"\nline")
        registry.setGauge("e", [("v", "a\\b\"c\nd é")], to: 1)
        #expect(registry.samples("e{") == [#"e{v="a\\b\"c\nd é"} 1"#])
        #expect(registry.samples("# HELP e ") == [#"# HELP e back\\slash "quotes"\nline"#])
    }

    @Test
    func `Above the limit, series go to one overflow series, which is counted`() {
        let registry = PrometheusRegistry(seriesLimit: 3)
        let factory = PrometheusMetricsFactory(registry)
        for index in 0..<10 {
            factory.makeCounter(label: "o_total", dimensions: [("i", String(index))]).increment(by: 1)
        }
        factory.makeCounter(label: "o_total", dimensions: [("i", "0")]).increment(by: 1)
        #expect(
            registry.samples("o_total") == [
                #"o_total{i="0"} 2"#, #"o_total{i="1"} 1"#, #"o_total{i="2"} 1"#, #"o_total{overflow="true"} 7"#,
            ]
        )
        #expect(registry.samples("sluice_metrics_dropped") == ["sluice_metrics_dropped_series_total 7"])
    }

    @Test
    func `Gauge series that are set together replace the earlier ones`() {
        let registry = PrometheusRegistry(seriesLimit: 2)
        registry.describe("g", kind: .gauge, help: "A gauge.")
        registry.setGauges("g", [([("o", "a")], 1), ([("o", "b")], 2), ([("o", "c")], 3)])
        #expect(registry.samples("g{") == [#"g{o="a"} 1"#, #"g{o="b"} 2"#])
        registry.setGauges("g", [([("o", "c")], 4)])
        #expect(registry.samples("g{") == [#"g{o="c"} 4"#])
        registry.setGauges("g", [])
        #expect(registry.samples("# TYPE g") == [])
        registry.setCounter("c_total", to: 5)
        registry.setGauges("c_total", [([], 6)])
        #expect(registry.samples("c_total") == ["c_total 5"])
    }

    @Test
    func `A destroyed series makes room for another`() {
        let registry = PrometheusRegistry(seriesLimit: 1)
        let factory = PrometheusMetricsFactory(registry)
        let first = factory.makeMeter(label: "r", dimensions: [("i", "1")])
        factory.destroyMeter(first)
        factory.makeMeter(label: "r", dimensions: [("i", "2")]).set(4.0)
        #expect(registry.samples("r{") == [#"r{i="2"} 4"#])
    }

    @Test
    func `A name keeps its first kind; another kind is counted without output`() {
        let registry = PrometheusRegistry()
        let factory = PrometheusMetricsFactory(registry)
        factory.makeMeter(label: "k", dimensions: []).set(1.0)
        factory.makeRecorder(label: "k", dimensions: [], aggregate: true).record(2.0)
        registry.describe("g", kind: .gauge, help: "G.")
        factory.makeRecorder(label: "g", dimensions: [], aggregate: true).record(2.0)
        #expect(registry.samples("k") == ["k 1"])
        #expect(registry.samples("g").isEmpty)
        #expect(registry.samples("sluice_metrics_dropped") == ["sluice_metrics_dropped_series_total 2"])
    }

    @Test
    func `Collectors run at each scrape`() {
        let registry = PrometheusRegistry()
        let scrapes = registry.counter("scrapes", [])
        registry.onScrape { registry in
            scrapes.increment(by: Int64(1))
            registry.setGauge("pool_connections", [("state", "idle")], to: 3)
            registry.setCounter("pool_waits_total", to: 12.5)
        }
        _ = registry.renderText()
        #expect(registry.samples("scrapes") == ["scrapes_total 2"])
        #expect(registry.samples("pool") == [#"pool_connections{state="idle"} 3"#, "pool_waits_total 12.5"])
    }

    @Test
    func `The process reports its CPU time, memory, age and files`() throws {
        let registry = PrometheusRegistry()
        registry.addProcessMetrics()
        let names = [
            "process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds",
            "process_open_fds", "process_max_fds",
        ]
        for name in names {
            let sample = try #require(registry.samples(name + " ").first)
            let value = try #require(Double(sample.dropFirst(name.count + 1)))
            #expect(value > 0)
        }
        let start = try #require(ProcessMetrics.startTime())
        let now = Double(LogTime.now().milliseconds) / 1_000
        #expect(start < now + 2 && start > now - 86_400)
    }
}
