import HTTPTypes
import JSONText
import Telemetry

/// `GET /livez` and `GET /readyz`.
struct HealthEndpoints: Sendable {
    let version: String
    /// Returns the reasons why requests cannot be served; empty if they can be served.
    let reasons: @Sendable () async -> [String]
    /// Returns notices for operators that do not prevent requests from being served.
    let notices: @Sendable () -> [String]

    /// Responds that the process runs. It does not check the database, because a restart of the gateway would not make
    /// the database available.
    func live(_ exchange: Exchange) async throws -> Answer {
        Answer(.ok) { writer in
            writer.member("status", "ok" as StaticString)
            writer.member("version", version)
        }
    }

    /// Responds whether requests can be served.
    func ready(_ exchange: Exchange) async throws -> Answer {
        let reasons = await reasons()
        let notices = notices()
        return Answer(reasons.isEmpty ? .ok : .serviceUnavailable) { writer in
            writer.member("status", reasons.isEmpty ? "ok" : "unavailable" as StaticString)
            if !reasons.isEmpty { writer.member("reasons", reasons) }
            if !notices.isEmpty { writer.member("notices", notices) }
        }
    }
}

/// `GET /metrics`, for a Prometheus server.
struct MetricsEndpoint: Sendable {
    let registry: PrometheusRegistry
    /// Returns the reasons why requests cannot be served; empty if they can be served.
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
