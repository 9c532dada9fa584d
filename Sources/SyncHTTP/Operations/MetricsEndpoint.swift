import HTTPTypes
import Telemetry

/// `GET /metrics`, for a Prometheus server.
struct MetricsEndpoint: Sendable {
    let registry: PrometheusRegistry

    func scrape(_ exchange: Exchange) async throws -> Answer {
        var text: [UInt8] = []
        text.reserveCapacity(65_536)
        registry.render(into: &text)
        var answer = Answer(.ok, json: text)
        answer.contentType = PrometheusRegistry.contentType
        return answer
    }
}
