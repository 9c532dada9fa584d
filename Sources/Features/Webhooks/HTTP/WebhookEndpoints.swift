import Foundation
import HTTPTypes
import JSONText
import StandardWebhooks
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/webhooks`: an organization's webhook endpoints and their deliveries.
///
/// A secret is shown once, in the response to the request that created it.
struct WebhookEndpoints: Sendable {
    let administration: WebhookAdministration
    let bodies: BodyReader
    let policy: AddressPolicy
    /// The public key with which receivers verify `v1a` signatures, as `whpk_…`; nil if there are no such signatures.
    let publicKey: String?

    // MARK: - Endpoints

    func list(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard let webhooks = try await administration.list(in: exchange.uuid(at: 0)) else { throw Refusal.notFound }
        return Answer(.ok) { writer in
            writer.member("webhooks", webhooks)
            writer.member("public_key", publicKey)
        }
    }

    func add(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let organization = try exchange.uuid(at: 0)
        return try await bodies.withBody(of: exchange) { body in
            let request = try WebhookRequest(body: body, isNew: true, policy: policy)
            let secret = request.secret ?? WebhookSecret()
            let made = try await administration.add(
                to: organization,
                request.update,
                url: request.update.url ?? "",
                secret: secret.text
            )
            guard let made else { throw Refusal.notFound }
            return Self.answer(.created, made, secret)
        }
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try .found(await administration.endpoint(endpoint(exchange)))
    }

    func change(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let endpoint = try endpoint(exchange)
        return try await bodies.withBody(of: exchange) { body in
            let request = try WebhookRequest(body: body, isNew: false, policy: policy)
            return try .found(await administration.change(endpoint, request.update))
        }
    }

    func remove(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard try await administration.delete(endpoint(exchange)) else { throw Refusal.notFound }
        return Answer(.noContent)
    }

    func rotate(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let endpoint = try endpoint(exchange)
        return try await bodies.withBody(of: exchange, isOptional: true) { body in
            let request = try WebhookSecretRequest(body: body)
            let secret = request.secret ?? WebhookSecret()
            let rotated = try await administration.rotate(
                endpoint,
                to: secret.text,
                overlap: Double(request.overlap)
            )
            guard let rotated else { throw Refusal.notFound }
            return Self.answer(.ok, rotated, secret)
        }
    }

    /// Sends a test message, which reports no event.
    func test(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let endpoint = try endpoint(exchange)
        guard let found = try await administration.endpoint(endpoint) else { throw Refusal.notFound }
        guard let id = try await administration.test(endpoint) else {
            throw Problem(.statusTransitionMustBeValid, "the webhook is \(found.status.rawValue); enable it first")
        }
        return Answer(.accepted) { $0.member("id", id) }
    }

    private static func answer(
        _ status: HTTPResponse.Status,
        _ webhook: WebhookEndpointRow,
        _ secret: WebhookSecret
    ) -> Answer {
        Answer(status) { writer in
            webhook.writeMembers(to: &writer)
            writer.member("secret", secret.text)
        }
    }

    // MARK: - Deliveries

    func deliveries(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["status", "limit", "cursor"])
        let limit = try query.limit(default: 100)
        let status = try query.text("status").map { text throws(Problem) in
            guard let status = WebhookOutcome.Status(rawValue: text) else {
                throw .invalidParameter("the query parameter 'status' must be waiting, delivered or dead")
            }
            return status
        }
        let cursor = try query.text("cursor").map { text throws(Problem) in
            guard let id = UUID(parsing: text) else { throw .invalidParameter("cursor is invalid") }
            return id
        }
        let page = try await administration.deliveries(of: endpoint(exchange), status, limit: limit, after: cursor)
        guard let page else { throw Refusal.notFound }
        return Answer(.ok, capacity: 256 + 512 * page.deliveries.count) { writer in
            writer.member("deliveries", page.deliveries)
            writer.member("next", page.next)
        }
    }

    func retryAll(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard let count = try await administration.retryAll(of: endpoint(exchange)) else { throw Refusal.notFound }
        exchange.act?.record("retried", count)
        return Answer(.ok) { $0.member("retried", count) }
    }

    func retry(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        switch try await administration.retry(exchange.uuid(at: 2), of: endpoint(exchange)) {
        case .retried: return Answer(.noContent)
        case .notFound: throw Refusal.notFound
        case .notDead:
            throw Problem(.statusTransitionMustBeValid, "the delivery is not dead: it waits or was delivered")
        }
    }

    private func endpoint(_ exchange: Exchange) throws(Refusal) -> WebhookKey {
        WebhookKey(organization: try exchange.uuid(at: 0), id: try exchange.uuid(at: 1))
    }
}
