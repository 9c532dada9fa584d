package import ArgumentParser
import CommandSupport
package import FoundationEssentials
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
    private let dispatcher: WebhookDispatcher
    private let stats: Stats<WebhookStore.Stats>

    package static let tables: [StoredTable] = [.webhookDeliveries, .webhookEndpoints]

    package static let commands: [any ParsableCommand.Type] = [WebhooksCommand.self]

    package init(_ gateway: GatewayContext) {
        self.gateway = gateway
        let configuration = gateway.configuration
        var settings = WebhookDispatcher.Configuration(now: configuration.now)
        settings.places = gateway.workers.webhooks
        settings.maxConcurrentPerOrganization = max(1, gateway.workers.webhooks / 8)
        let sender = WebhookSender(
            policy: configuration.webhookAddresses,
            version: configuration.version,
            now: configuration.now,
            logger: gateway.logger
        )
        let store = gateway.store.webhooks
        dispatcher = WebhookDispatcher(
            store: store,
            post: .signing(by: gateway.workers.webhookSigningKey, with: sender, now: configuration.now),
            configuration: settings,
            logger: gateway.logger
        )
        stats = Stats { try await store.stats() }
    }

    package static var participants: [any CommitParticipant] { [WebhookParticipant()] }

    package var services: [any Service] { [dispatcher, stats] }

    package func upstreamChanged(of organization: UUID, isDown: Bool, reason: String?) {
        dispatcher.record(upstream: organization, isDown: isDown, reason: reason)
    }

    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let webhooks = WebhookEndpoints(
            administration: gateway.store.webhookAdministration,
            bodies: context.bodies,
            policy: gateway.configuration.webhookAddresses,
            publicKey: gateway.configuration.webhookPublicKey
        )
        let all = "/admin/organizations/{id}/webhooks"
        routes.read(at: all, webhooks.list)
        routes.write("addWebhook", .post, all, webhooks.add)
        let webhook = all + "/{webhook}"
        routes.read(at: webhook, webhooks.read)
        routes.write("changeWebhook", .patch, webhook, webhooks.change)
        routes.write("deleteWebhook", .delete, webhook, webhooks.remove)
        routes.write("rotateWebhookSecret", .post, webhook + "/secret", webhooks.rotate)
        routes.write("testWebhook", .post, webhook + "/test", webhooks.test)
        let deliveries = webhook + "/deliveries"
        routes.read(at: deliveries, webhooks.deliveries)
        routes.write("retryWebhookDeliveries", .post, deliveries + "/retry", needs: .settle, webhooks.retryAll)
        routes.write("retryWebhookDelivery", .post, deliveries + "/{delivery}/retry", needs: .settle, webhooks.retry)
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
        let (dispatcher, stats, now) = (dispatcher, stats, gateway.configuration.now)
        registry.addGauge(
            "sluice_webhooks",
            "Webhooks of all organizations: enabled; failing, which are counted as enabled, too, and are paused; gone (410).",
            by: "state"
        ) {
            guard let found = stats.findings else { return [:] }
            return ["enabled": found.enabled, "failing": found.failing, "gone": found.gone].mapValues(Double.init)
        }
        registry.addGauge("sluice_webhooks_running", "Webhooks to which this replica sends.") {
            Double(dispatcher.loop.places.count)
        }
        registry.addGauge(
            "sluice_webhooks_awaiting",
            "Webhooks that wait for a response. They do not count towards SLUICE_MAX_WEBHOOKS."
        ) {
            Double(dispatcher.loop.places.awaiting)
        }
        registry.addGauge(
            "sluice_webhook_failing_seconds",
            "Time for which the longest-failing webhook has failed; 0 without failing webhooks."
        ) {
            stats.findings.map { $0.failingSince?.age(at: now()) ?? 0 }
        }
    }
}
