import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/service-tokens`: the tokens with which programs ingest edits made outside the gateway.
struct ServiceTokenEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader

    func list(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard let tokens = try await store.administration.serviceTokens(of: exchange.uuid(at: 0)) else {
            throw Refusal.notFound
        }
        return Answer(.ok) { writer in
            writer.name("service_tokens")
            writer.beginArray()
            for token in tokens {
                writer.beginObject()
                token.writeMembers(to: &writer)
                writer.endObject()
            }
            writer.endArray()
        }
    }

    /// Shows the token itself: never again.
    func make(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let organization = try exchange.uuid(at: 0)
        let source = try await bodies.withBody(of: exchange) { try Self.source(in: $0) }
        guard let made = try await store.administration.makeServiceToken(for: source, of: organization) else {
            throw Refusal.notFound
        }
        return Answer(.created) { writer in
            made.row.writeMembers(to: &writer)
            writer.member("token", made.token.text)
        }
    }

    func revoke(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, token) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        guard let row = try await store.administration.revokeServiceToken(token, of: organization) else {
            throw Refusal.notFound
        }
        return Answer(.ok, row)
    }

    private static func source(in body: [UInt8]) throws(Problem) -> String {
        var source: String?
        try RequestReport.read(body, of: "a service token: source") { report, member, value in
            guard member == "source" else { return false }
            source = value.string.flatMap { IngestSource.isValid($0) ? $0 : nil }
            if source == nil { report.refuse("/source", Rule.range, "source must match [a-z][a-z0-9_-]{0,63}") }
            return true
        }
        guard let source else {
            let detail = "source is required: the name of the source of the token's events"
            throw Problem(.validationFailed, pointer: "/source", rule: Rule.required, detail)
        }
        return source
    }
}

extension ServiceTokenRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("source", source)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("last_used_at", lastUsedAt?.rfc3339)
        writer.member("revoked_at", revokedAt?.rfc3339)
    }
}
