import HTTPTypes
import JSONText

/// `GET /livez` and `GET /readyz`.
struct HealthEndpoints: Sendable {
    let version: String
    /// Why requests can't be served; empty if they can.
    let reasons: @Sendable () async -> [String]
    /// What an operator should know although requests can be served.
    let notices: @Sendable () -> [String]

    /// Responds that the process runs. It does not check the database: a restart would not restore that.
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
