import CoreMetrics
import Testing

@testable import Telemetry

@Suite("Counters and gauges")
struct CounterTests {
    let registry = PrometheusRegistry()
    var factory: PrometheusMetricsFactory { PrometheusMetricsFactory(registry) }

    @Test
    func `A counter counts, and ends in _total`() {
        let counter = factory.makeCounter(label: "sluice_pushes", dimensions: [])
        counter.increment(by: 2)
        counter.increment(by: 1)
        counter.increment(by: -5)
        #expect(registry.samples("sluice_pushes") == ["sluice_pushes_total 3"])
    }

    @Test
    func `The same name and labels, in any order, are the same series`() {
        factory.makeCounter(label: "a_total", dimensions: [("x", "1"), ("y", "2")]).increment(by: 1)
        factory.makeCounter(label: "a_total", dimensions: [("y", "2"), ("x", "1")]).increment(by: 1)
        factory.makeFloatingPointCounter(label: "a", dimensions: [("x", "1"), ("y", "2")]).increment(by: 0.5)
        #expect(registry.samples("a_total") == [#"a_total{x="1",y="2"} 2.5"#])
    }

    @Test
    func `Integer counts stay exact beyond 2^53`() {
        let counter = factory.makeCounter(label: "big_total", dimensions: [])
        counter.increment(by: 9_007_199_254_740_992)
        counter.increment(by: 1)
        #expect(registry.samples("big") == ["big_total 9007199254740993"])
    }

    @Test
    func `Fractional counters ignore amounts that are not positive and finite`() {
        let counter = factory.makeFloatingPointCounter(label: "f_total", dimensions: [])
        for amount in [1.5, -1, .nan, .infinity, 0] { counter.increment(by: amount) }
        #expect(registry.samples("f_total") == ["f_total 1.5"])
    }

    @Test
    func `Concurrent increments are all counted`() async {
        let factory = factory
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let whole = factory.makeCounter(label: "n_total", dimensions: [])
                    let half = factory.makeFloatingPointCounter(label: "h_total", dimensions: [])
                    let meter = factory.makeMeter(label: "m", dimensions: [])
                    let timer = factory.makeTimer(label: "t_seconds", dimensions: [])
                    for _ in 0..<1_000 {
                        whole.increment(by: 1)
                        half.increment(by: 0.5)
                        meter.increment(by: 2)
                        meter.decrement(by: 1)
                        timer.recordNanoseconds(1)
                    }
                }
            }
        }
        #expect(registry.samples("n_total") == ["n_total 8000"])
        #expect(registry.samples("h_total") == ["h_total 4000"])
        #expect(registry.samples("m ") == ["m 8000"])
        #expect(registry.samples("t_seconds_count") == ["t_seconds_count 8000"])
    }

    @Test
    func `Meters and recorders that do not aggregate are gauges`() {
        let meter = factory.makeMeter(label: "queue", dimensions: [])
        meter.set(Int64(7))
        meter.increment(by: 2)
        meter.decrement(by: 0.5)
        factory.makeRecorder(label: "level", dimensions: [], aggregate: false).record(-1.25)
        #expect(registry.samples("queue") == ["queue 8.5"])
        #expect(registry.samples("level") == ["level -1.25"])
        #expect(registry.samples("# TYPE level") == ["# TYPE level gauge"])
    }

    @Test(arguments: [
        (Double.infinity, "+Inf"), (-.infinity, "-Inf"), (.nan, "NaN"), (1, "1"), (0.005, "0.005"),
        (-2.5, "-2.5"), (1e300, "1e+300"), (1e-7, "1e-07"), (-0.0, "0"),
    ]
    )
    func `Numbers have the format of Prometheus`(value: Double, text: String) {
        #expect(PrometheusText.number(value) == text)
    }

    @Test
    func `A destroyed handler's series disappears, and a new one starts at zero`() {
        let counter = factory.makeCounter(label: "d_total", dimensions: [("k", "v")])
        counter.increment(by: 5)
        factory.destroyCounter(counter)
        #expect(registry.samples("d_total").isEmpty)
        factory.makeCounter(label: "d_total", dimensions: [("k", "v")]).increment(by: 1)
        #expect(registry.samples("d_total") == [#"d_total{k="v"} 1"#])
    }
}
