import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import TestSupport
import Testing

/// A real Prometheus, with the configuration and the rules of docker/, that scrapes two gateways.
@Suite(
    .enabled(if: TestServer.program("prometheus") != nil, "Prometheus is not installed (scripts/bootstrap --tests)"),
    .timeLimit(.minutes(10))
)
struct PrometheusTests {
    private static func start(scraping gateways: [GatewayProcess]) async throws -> TestServer {
        let program = try #require(TestServer.program("prometheus"))
        func target(_ index: Int) -> String { gateways[index].operations.replacing("http://", with: "") }
        return try await TestServer.start { directory, port in
            let configuration = try Repository.text("docker/prometheus/prometheus.yml").replacing(all: [
                "gateway-1:8081": target(0), "gateway-2:8081": target(1), ": 15s": ": 250ms",
            ])
            try configuration.write(toFile: "\(directory)/prometheus.yml", atomically: false, encoding: .utf8)
            let rules = try Repository.text("docker/prometheus/alerts.yml")
            try rules.write(toFile: "\(directory)/alerts.yml", atomically: false, encoding: .utf8)
            return [
                program, "--config.file=\(directory)/prometheus.yml", "--storage.tsdb.path=\(directory)/data",
                "--web.listen-address=127.0.0.1:\(port)", "--log.level=warn",
            ]
        }
    }

    private static func ask(_ server: TestServer, _ path: String) async throws -> JSONValue? {
        let reply = try await send(.GET, "http://127.0.0.1:\(server.port)/api/v1/\(path)")
        return reply.json?["data"]
    }

    /// Waits until a query returns the expected values, and returns them.
    private static func query(
        _ server: TestServer,
        _ expression: String,
        until isWanted: ([String]) -> Bool
    ) async throws -> [String] {
        let allowed = CharacterSet.alphanumerics
        let text = try #require(expression.addingPercentEncoding(withAllowedCharacters: allowed))
        var values: [String] = []
        try await waitUntil("\(expression) differs from \(values): \(server.log)", every: .milliseconds(100)) {
            let result = try await ask(server, "query?query=\(text)")?["result"]?.elements.map(Array.init) ?? []
            values = result.compactMap { $0["value"]?.elements.map(Array.init)?.last?.string }
            return isWanted(values)
        }
        return values
    }

    @Test func `Prometheus scrapes two replicas, loads the rules and detects a missing replica`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateways = [
            try await GatewayProcess.start(database: database.uri),
            try await GatewayProcess.start(database: database.uri),
        ]
        let prometheus = try await Self.start(scraping: gateways)
        let workers = [
            try await SingleWorker(gateways[0]), try await SingleWorker(gateways[1]),
        ]
        for worker in workers { #expect(try await worker.push([worker.draft(1)]).status == 200) }

        _ = try await Self.query(prometheus, #"up{job="sluice"}"#) { $0 == ["1", "1"] }
        _ = try await Self.query(prometheus, "sluice_ready") { $0 == ["1", "1"] }
        let pushes = #"sluice_pushes_total{result="accepted"}"#
        _ = try await Self.query(prometheus, pushes) { $0 == ["1", "1"] }
        _ = try await Self.query(prometheus, "count(sluice_build_info)") { $0 == ["2"] }
        // a histogram as the dashboard reads it
        let median = "histogram_quantile(0.5, sum by (le) (sluice_commit_group_duration_seconds_bucket)) > 0"
        _ = try await Self.query(prometheus, median) { $0.count == 1 }

        let groups = try #require(try await Self.ask(prometheus, "rules")?["groups"]?.elements.map(Array.init))
        let rules = try #require(groups.first?["rules"]?.elements.map(Array.init))
        let alerts = try Repository.text("docker/prometheus/alerts.yml").matches(of: #/- alert: (\w+)/#).count
        #expect(rules.count == alerts)
        #expect(rules.allSatisfy { $0["health"]?.string != "err" }, "\(rules.map(\.text))")
        let firing = try await Self.query(prometheus, #"count(ALERTS{alertstate="firing"}) or vector(0)"#) { _ in true }
        #expect(firing == ["0"])

        try await gateways[1].crash()
        _ = try await Self.query(prometheus, #"sum(up{job="sluice"})"#) { $0 == ["1"] }
        let down = #"ALERTS{alertname="SluiceGatewayDown",alertstate="pending"}"#
        _ = try await Self.query(prometheus, down) { $0 == ["1"] }
        try await prometheus.end()
        #expect(try await gateways[0].terminate() == 0)
    }
}
