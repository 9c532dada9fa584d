package import ArgumentParser
import CommandSupport
package import Foundation
import HTTPTypes
package import ServiceLifecycle
import SyncDispatch
package import SyncHTTP
import SyncModel
package import SyncStore
package import Telemetry

/// Webhooks: endpoints of an organization, and deliveries to them (Standard Webhooks).
package struct WebhooksFeature: GatewayFeature {
    private let gateway: GatewayContext
    private let courier: WebhookDispatcher
    private let census: Stats<WebhookStore.Stats>

    package static let tables: [StoredTable] = [.webhookDeliveries, .webhookEndpoints]

    package static let commands: [any ParsableCommand.Type] = [WebhooksCommand.self]

    package init(_ gateway: GatewayContext) {
        self.gateway = gateway
        let configuration = gateway.configuration
        var settings = WebhookDispatcher.Configuration(now: configuration.now)
        settings.places = gateway.workers.webhooks
        settings.placesOfOrganization = max(1, gateway.workers.webhooks / 8)
        let sender = WebhookSender(
            policy: configuration.webhookAddresses,
            version: configuration.version,
            now: configuration.now,
            logger: gateway.logger
        )
        let store = gateway.store.webhooks
        courier = WebhookDispatcher(
            store: store,
            post: .signing(by: gateway.workers.webhookSigningKey, with: sender, now: configuration.now),
            configuration: settings,
            logger: gateway.logger
        )
        census = Stats { try await store.census() }
    }

    package static var participants: [any CommitParticipant] { [WebhookParticipant()] }

    package var services: [any Service] { [courier, census] }

    package func upstreamChanged(of organization: UUID, isDown: Bool, reason: String?) {
        courier.note(upstream: organization, isDown: isDown, reason: reason)
    }

    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let webhooks = WebhookEndpoints(
            administration: gateway.store.webhookAdministration,
            bodies: context.bodies,
            policy: gateway.configuration.webhookAddresses,
            publicKey: gateway.configuration.webhookPublicKey
        )
        let all = "/admin/organizations/{id}/webhooks"
        routes.look(at: all, webhooks.list)
        routes.act("addWebhook", .post, all, webhooks.add)
        let webhook = all + "/{webhook}"
        routes.look(at: webhook, webhooks.read)
        routes.act("changeWebhook", .patch, webhook, webhooks.change)
        routes.act("deleteWebhook", .delete, webhook, webhooks.remove)
        routes.act("rotateWebhookSecret", .post, webhook + "/secret", webhooks.rotate)
        routes.act("testWebhook", .post, webhook + "/test", webhooks.test)
        let deliveries = webhook + "/deliveries"
        routes.look(at: deliveries, webhooks.deliveries)
        routes.act("retryWebhookDeliveries", .post, deliveries + "/retry", needs: .settle, webhooks.retryAll)
        routes.act("retryWebhookDelivery", .post, deliveries + "/{delivery}/retry", needs: .settle, webhooks.retry)
    }

    package static func describeMetrics(in registry: PrometheusRegistry) {
        registry.describe(
            WebhookMetrics.attempts,
            kind: .counter,
            help:
                "Attempts to deliver webhooks, by outcome: delivered, waiting (retried), dead."
        )
        registry.describe(
            WebhookMetrics.leasesLost,
            kind: .counter,
            help: "Attempts discarded because another worker had leased the webhook."
        )
        registry.describe(
            WebhookMetrics.requestDuration,
            kind: .histogram,
            help: "Duration of webhook requests, including time-outs."
        )
    }

    package func addMetrics(to registry: PrometheusRegistry) {
        let (courier, census, now) = (courier, census, gateway.configuration.now)
        registry.addGauge(
            "sluice_webhooks",
            "Webhooks of all organizations, by state: enabled, failing (of these, paused), gone (responded 410).",
            by: "state"
        ) {
            guard let found = census.findings else { return [:] }
            return ["enabled": found.enabled, "failing": found.failing, "gone": found.gone].mapValues(Double.init)
        }
        registry.addGauge("sluice_webhooks_running", "Webhooks to which this replica sends.") {
            Double(courier.loop.places.count)
        }
        registry.addGauge("sluice_webhooks_awaiting", "Webhooks waiting for a response, outside of the limit.") {
            Double(courier.loop.places.awaiting)
        }
        registry.addGauge(
            "sluice_webhook_failing_seconds",
            "Time for which the longest-failing webhook has failed; 0 without failing webhooks."
        ) {
            census.findings.map { $0.failingSince?.age(at: now()) ?? 0 }
        }
    }
}
