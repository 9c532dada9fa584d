import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/service-tokens`: the tokens with which programs report events.
struct ServiceTokenEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader

    func list(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard let tokens = try await store.administration.serviceTokens(of: exchange.uuid(at: 0)) else {
            throw Refusal.notFound
        }
        return Answer(.ok) { writer in
            writer.member("service_tokens", tokens)
        }
    }

    /// Creates a token, and responds with the token. No later response contains it.
    func make(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let organization = try exchange.uuid(at: 0)
        let source = try await bodies.withBody(of: exchange) { try ServiceTokenRow.table.read($0, into: "") }
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
}

extension ServiceTokenRow: AnswerBody {
    /// The members of a token in JSON. Requests contain only the source.
    fileprivate static let table = MemberTable<String, Self>("a service token", missing: .alone) {
        BodyMember("id", shown: \.id)
        BodyMember("source", .text("must match [a-z][a-z0-9_-]{0,63}") { IngestSource.isValid($0) }, into: \.self)
            .required("source is required: the name of the source of the token's events")
            .shown(\.source)
        BodyMember("created_at", shown: \.createdAt.rfc3339)
        BodyMember("last_used_at", shown: \.lastUsedAt?.rfc3339)
        BodyMember("revoked_at", shown: \.revokedAt?.rfc3339)
    }

    package func writeMembers(to writer: inout JSONWriter) { Self.table.write(self, to: &writer) }
}
