import FoundationEssentials
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
    /// The public key with which receivers verify `v1a` signatures, as `whpk_…`; nil if the gateway makes no such
    /// signatures.
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
            throw Problem(.statusTransitionMustBeValid, "the delivery is not dead: it is waiting or was delivered")
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
    /// The secret of a new endpoint.
    private(set) var secret: WebhookSecret?

    /// - Parameter isNew: whether the body describes a new endpoint. If so, `url` is required, and `secret` is allowed.
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers. No detail repeats a secret.
    init(body: [UInt8], isNew: Bool, policy: AddressPolicy) throws(Problem) {
        self = try Self.table(isNew: isNew, policy).read(body, into: Self())
    }

    private init() {}

    /// The members of a webhook in requests and responses. The parameters matter only for requests.
    fileprivate static func table(
        isNew: Bool = true,
        _ policy: AddressPolicy = AddressPolicy()
    ) -> MemberTable<Self, WebhookEndpointRow> {
        MemberTable("a webhook", missing: .alone) {
            BodyMember("id", shown: \.id)
            BodyMember("url", .webhookURL(policy), into: \.update.url).required(if: isNew).shown(\.url)
            BodyMember("description", .webhookDescription, into: \.update.description).shown(\.description)
            BodyMember("events", .webhookEvents, into: \.update.events).shown { $0.events.map(\.rawValue) }
            BodyMember("status", .status, into: \.update.isEnabled).shown(\.status.rawValue)
            if isNew { BodyMember("secret", .webhookSecret, into: \.secret) }
            BodyMember("previous_secret_until", shown: \.previousSecretUntil?.rfc3339)
            BodyMember("failure_count", shown: { Int64($0.failureCount) })
            BodyMember("failing_since", shown: \.failingSince?.rfc3339)
            BodyMember("paused_until", shown: \.pausedUntil?.rfc3339)
            BodyMember("last_error", shown: \.lastError)
            BodyMember("last_sequence", shown: \.lastSequence)
            BodyMember("created_at", shown: \.createdAt.rfc3339)
            BodyMember("updated_at", shown: \.updatedAt.rfc3339)
        }
    }
}

extension WebhookEndpointRow: AnswerBody {
    private static let table = WebhookRequest.table()

    package func writeMembers(to writer: inout JSONWriter) { Self.table.write(self, to: &writer) }
}

extension MemberKind<String> {
    fileprivate static var webhookDescription: Self {
        text("must be a string of at most 200 characters, without U+0000") {
            $0.unicodeScalars.count <= 200 && !$0.unicodeScalars.contains("\0")
        }
    }

    fileprivate static func webhookURL(_ policy: AddressPolicy) -> Self {
        Self { value, place, report in
            guard let text = value.string else {
                report.refuse(place.pointer, Rule.memberType, "url must be a string")
                return nil
            }
            do throws(BaseURL.Malformed) {
                let url = try WebhookURL(text)
                guard let problem = url.problem(policy) else { return url.text }
                report.refuse(place.pointer, Rule.range, "url " + problem)
            } catch {
                report.refuse(place.pointer, Rule.range, "url " + error.reason)
            }
            return nil
        }
    }
}

extension MemberKind<[WebhookEvent]> {
    fileprivate static var webhookEvents: Self {
        let known = WebhookEvent.subscribable.map(\.rawValue).joined(separator: ", ")
        return Self { value, place, report in
            guard let elements = value.elements else {
                report.refuse(place.pointer, Rule.memberType, "events must be an array, of \(known)")
                return nil
            }
            var events: [WebhookEvent] = []
            // only the first 100 elements are checked: the array may be long, and one response lists all errors
            for (index, element) in elements.prefix(100).enumerated() {
                let event = element.string.flatMap(WebhookEvent.init(rawValue:))
                guard let event, WebhookEvent.subscribable.contains(event) else {
                    report.refuse("\(place.pointer)/\(index)", Rule.range, "an event must be one of \(known)")
                    continue
                }
                if !events.contains(event) { events.append(event) }
            }
            if events.isEmpty, report.problems.isEmpty {
                report.refuse(place.pointer, Rule.range, "events must contain at least one of \(known)")
            }
            return events
        }
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
