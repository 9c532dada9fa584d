import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport

@testable import SyncStore
@testable import WebhooksFeature

/// Shared helpers of webhook tests.
extension Gateway {
    /// Adds an endpoint.
    func webhook(
        _ organization: Organization,
        _ events: [WebhookEvent] = WebhookEvent.defaults,
        secret: String = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    ) async throws -> WebhookKey {
        var update = WebhookUpdate()
        update.events = events
        let row = try await store.webhookAdministration.add(
            to: organization.id,
            update,
            url: "https://hooks.example/",
            secret: secret
        )
        guard let row else { throw NoWebhook() }
        return WebhookKey(organization: organization.id, id: row.id)
    }

    struct NoWebhook: Error {}

    /// The messages stored for an endpoint, oldest first.
    func reported(_ endpoint: WebhookKey, _ status: WebhookOutcome.Status? = nil) async throws -> [WebhookDeliveryRow] {
        let page = try await store.webhookAdministration.deliveries(of: endpoint, status, limit: 1_000, after: nil)
        return (page?.deliveries ?? []).reversed()
    }

    /// A step under a lease, with the same result for every delivery of the step before.
    func step(
        _ lease: WebhookStore.Lease,
        _ deliveries: [WebhookDelivery] = [],
        answering answer: WebhookAnswer = .status(200, retryAt: nil),
        releases: Bool = false
    ) async throws -> WebhookStore.Step? {
        let outcomes = deliveries.map { WebhookSchedule.outcome(of: $0, answer, now: clock.now, jitter: 0) }
        return try await store.webhooks.step(
            lease,
            outcomes,
            answers: deliveries.map { _ in answer },
            releases: releases
        )
    }

    func execute(_ script: String) async throws {
        let connection = try await database.connect()
        try await connection.execute(script: script)
        await connection.closeAndWait()
    }
}

extension WebhookDeliveryRow {
    var json: JSONValue {
        get throws { try JSONTree(parsing: data).root }
    }
}

extension Phone {
    /// An update of an entity that does not exist, which fails immediately.
    func failing() -> Entry { entry("update", server: #""\#(UUID().lowercased)""#) }
}
