import HTTPTypes
import JSONText

/// `GET /livez` and `GET /readyz`.
struct HealthEndpoints: Sendable {
    let version: String
    /// Why requests can't be served; empty when they can.
    let reasons: @Sendable () async -> [String]
    /// What an operator should know although requests can be served.
    let notices: @Sendable () -> [String]

    /// The process runs. Says nothing of the database: restarting would not bring it back.
    func live(_ exchange: Exchange) async throws -> Answer {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("status", "ok" as StaticString)
        writer.member("version", version)
        writer.endObject()
        return Answer(.ok, json: writer.bytes)
    }

    /// Requests can be served.
    func ready(_ exchange: Exchange) async throws -> Answer {
        let reasons = await reasons()
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("status", reasons.isEmpty ? "ok" : "unavailable" as StaticString)
        if !reasons.isEmpty {
            writer.name("reasons")
            writer.beginArray()
            for reason in reasons { writer.string(reason) }
            writer.endArray()
        }
        let notices = notices()
        if !notices.isEmpty {
            writer.name("notices")
            writer.beginArray()
            for notice in notices { writer.string(notice) }
            writer.endArray()
        }
        writer.endObject()
        return Answer(reasons.isEmpty ? .ok : .serviceUnavailable, json: writer.bytes)
    }
}
