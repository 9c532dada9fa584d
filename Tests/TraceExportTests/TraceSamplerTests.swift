import SyncModel
import TestSupport
import Testing

@testable import TraceExport

@Suite struct TraceSamplerTests {
    private func sampler(_ name: String, _ ratio: Double = 0.5) throws -> TraceSampler {
        try #require(TraceSampler(name, ratio: ratio))
    }

    private func id(_ random: inout SeededRandom) -> UInt128 { .random(in: 1 ... .max, using: &random) }

    @Test(arguments: [0.0, 0.001, 0.01, 0.25, 0.5, 0.9, 1.0])
    func `records about the share of traces that the ratio names`(ratio: Double) throws {
        let seed = Seed()
        var random = seed.generator
        let (sampler, count) = (try sampler("traceidratio", ratio), 20_000)
        let recorded = (0..<count).count { _ in sampler.records(id(&random), under: nil) }
        // six standard deviations: one failure in 500 million runs
        let deviation = (Double(count) * ratio * (1 - ratio)).squareRoot()
        #expect(abs(Double(recorded) - Double(count) * ratio) <= 6 * deviation, "\(seed)")
    }

    @Test func `records with a higher ratio all traces of a lower ratio`() throws {
        let seed = Seed()
        var random = seed.generator
        for _ in 0..<5_000 {
            let ratios = [Double.random(in: 0...1, using: &random), .random(in: 0...1, using: &random)].sorted()
            let (fewer, more) = (try sampler("traceidratio", ratios[0]), try sampler("traceidratio", ratios[1]))
            let trace = id(&random)
            #expect(!fewer.records(trace, under: nil) || more.records(trace, under: nil), "\(seed)")
            // every gateway decides in the same way
            #expect(fewer.records(trace, under: nil) == fewer.records(trace, under: nil), "\(seed)")
        }
    }

    @Test func `the samplers that follow parents record what the client records`() throws {
        let seed = Seed()
        var random = seed.generator
        for name in ["parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"] {
            let sampler = try sampler(name, .random(in: 0...1, using: &random))
            for isSampled in [true, false] {
                let parent = TraceContext(sampled: isSampled)
                #expect(sampler.records(parent.traceID, under: parent) == isSampled, "\(name) \(seed)")
            }
        }
    }

    @Test func `the other samplers ignore the client`() throws {
        for isSampled in [true, false] {
            let parent = TraceContext(sampled: isSampled)
            #expect(try sampler("always_on").records(parent.traceID, under: parent))
            #expect(try !sampler("always_off").records(parent.traceID, under: parent))
            #expect(try sampler("traceidratio", 1).records(parent.traceID, under: parent))
            #expect(try !sampler("traceidratio", 0).records(parent.traceID, under: parent))
        }
    }

    @Test func `without a client, always_on and always_off decide alike for all traces`() throws {
        for trace: UInt128 in [1, .max, 1 << 127, 1 << 56 - 1] {
            #expect(try sampler("parentbased_always_on").records(trace, under: nil))
            #expect(try !sampler("parentbased_always_off").records(trace, under: nil))
        }
        #expect(TraceSampler("jaeger_remote", ratio: 1) == nil)
    }
}
