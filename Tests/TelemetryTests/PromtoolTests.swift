import CoreMetrics
import Foundation
import Testing

@testable import Telemetry

@Suite("Prometheus's own checker")
struct PromtoolTests {
    static let promtool = ["/usr/bin/promtool", "/usr/local/bin/promtool"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    @Test(
        "promtool check metrics accepts the page and has nothing to remark",
        .enabled(if: promtool != nil, "promtool is not installed (scripts/bootstrap --tests)")
    )
    func accepted() throws {
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
        let (status, output) = try check(registry.renderText())
        #expect(status == 0, "\(output)")
        #expect(output.isEmpty, "\(output)")
    }

    private func check(_ text: String) throws -> (status: Int32, output: String) {
        let process = Process()
        let input = Pipe()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: try #require(Self.promtool))
        process.arguments = ["check", "metrics"]
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
        try input.fileHandleForWriting.close()
        let answer = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: answer, as: UTF8.self))
    }
}
