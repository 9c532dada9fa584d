import Foundation
import HTTPTypes
package import JSONText
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

// MARK: - WebhookRequest

/// The body of `POST …/webhooks` and of `PATCH …/webhooks/{webhook}`.
struct WebhookRequest {
    private(set) var update = WebhookUpdate()
    /// Of a new endpoint only.
    private(set) var secret: WebhookSecret?

    private static let what = "a webhook: url, description, events, status"

    /// - Parameter isNew: whether it describes a new endpoint: then `url` is required, and `secret` may be given.
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers. No detail repeats a secret.
    init(body: [UInt8], isNew: Bool, policy: AddressPolicy) throws(Problem) {
        var request = Self()
        try RequestReport.read(body, of: Self.what + (isNew ? ", secret" : "")) { report, member, value in
            switch member {
            case "url": request.update.url = report.webhookURL(value, policy)
            case "description":
                let text = value.string.flatMap {
                    $0.unicodeScalars.count <= 200 && !$0.unicodeScalars.contains("\0") ? $0 : nil
                }
                request.update.description = report.value(
                    text,
                    at: "/description",
                    "description must be a string of at most 200 characters, without U+0000"
                )
            case "events": request.update.events = report.webhookEvents(value)
            case "status":
                let status = value.string.flatMap { ["enabled": true, "disabled": false][$0] }
                request.update.isEnabled = report.value(status, at: "/status", "status must be enabled or disabled")
            case "secret" where isNew: request.secret = report.webhookSecret(value)
            default: return false
            }
            return true
        }
        if isNew, request.update.url == nil {
            throw Problem(.validationFailed, pointer: "/url", rule: Rule.required, "url is required")
        }
        self = request
    }

    private init() {}
}

extension RequestReport {
    fileprivate mutating func webhookURL(_ value: JSONValue, _ policy: AddressPolicy) -> String? {
        guard let text = value.string else {
            refuse("/url", Rule.memberType, "url must be a string")
            return nil
        }
        do throws(BaseURL.Malformed) {
            let url = try WebhookURL(text)
            guard let problem = url.problem(policy) else { return url.text }
            refuse("/url", Rule.range, "url " + problem)
        } catch {
            refuse("/url", Rule.range, "url " + error.reason)
        }
        return nil
    }

    fileprivate mutating func webhookEvents(_ value: JSONValue) -> [WebhookEvent]? {
        let known = WebhookEvent.subscribable.map(\.rawValue).joined(separator: ", ")
        guard let elements = value.elements else {
            refuse("/events", Rule.memberType, "events must be an array, of \(known)")
            return nil
        }
        var events: [WebhookEvent] = []
        var count = 0
        for element in elements {
            defer { count += 1 }
            // an array may be long, and one report lists all of its defects
            guard count < 100 else { break }
            let event = element.string.flatMap(WebhookEvent.init(rawValue:))
            guard let event, WebhookEvent.subscribable.contains(event) else {
                refuse("/events/\(count)", Rule.range, "an event must be one of \(known)")
                continue
            }
            if !events.contains(event) { events.append(event) }
        }
        if events.isEmpty, problems.isEmpty {
            refuse("/events", Rule.range, "events must contain at least one of \(known)")
        }
        return events
    }
}

extension WebhookEndpointRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("url", url)
        writer.member("description", description)
        writer.member("events", events.map(\.rawValue))
        writer.member("status", status.rawValue)
        writer.member("previous_secret_until", previousSecretUntil?.rfc3339)
        writer.member("failure_count", Int64(failureCount))
        writer.member("failing_since", failingSince?.rfc3339)
        writer.member("paused_until", pausedUntil?.rfc3339)
        writer.member("last_error", lastError)
        writer.member("last_sequence", lastSequence)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("updated_at", updatedAt.rfc3339)
    }
}

extension WebhookDeliveryRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("type", event.rawValue)
        writer.member("timestamp", occurredAt.rfc3339)
        writer.member("sequence", sequence)
        writer.member("data", raw: data)
        writer.member("status", status.rawValue)
        writer.member("attempt_count", Int64(attemptCount))
        writer.member("next_attempt_at", nextAttemptAt?.rfc3339)
        writer.member("settled_at", settledAt?.rfc3339)
        writer.member("response_status", lastStatus.map(Int64.init))
        writer.member("last_error", lastError)
    }
}
