import HTTPTypes
import Telemetry

/// `GET /metrics`, for a Prometheus server.
struct MetricsEndpoint: Sendable {
    let registry: PrometheusRegistry
    /// Why requests can't be served; empty if they can.
    let reasons: @Sendable () async -> [String]

    func scrape(_ exchange: Exchange) async throws -> Answer {
        registry.setGauge(HTTPMetrics.ready, to: await reasons().isEmpty ? 1 : 0)
        var text: [UInt8] = []
        text.reserveCapacity(65_536)
        registry.render(into: &text)
        var answer = Answer(.ok, json: text)
        answer.contentType = PrometheusRegistry.contentType
        return answer
    }
}
