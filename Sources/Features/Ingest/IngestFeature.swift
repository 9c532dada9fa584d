package import ArgumentParser
package import CommandSupport
import HTTPTypes
package import ServiceLifecycle
import SyncDispatch
package import SyncHTTP
package import SyncModel
package import SyncStore
import SyncUpstream
package import Telemetry

/// Ingest: events from outside of Sluice, which arrive by service tokens, webhooks, polling, and replication of
/// databases.
package struct IngestFeature: GatewayFeature {
    private let gateway: GatewayContext
    private let replication: ReplicationWorker
    private let poller: Poller?
    private let stats: Stats<[SourceKind: SourceStore.Stats]>

    package static let tables: [StoredTable] = [.serviceTokens, .sources]

    package static let commands: [any ParsableCommand.Type] = [TokensCommand.self, SourcesCommand.self]

    package init(_ gateway: GatewayContext) {
        self.gateway = gateway
        let (http, workers) = (gateway.configuration, gateway.workers)
        var following = ReplicationWorker.Configuration(now: http.now)
        following.places = workers.replications
        following.maxConcurrentPerOrganization = max(1, workers.replications / 8)
        following.batch = min(following.batch, http.limits.mutations)
        following.limits.payloadBytes = http.limits.payloadBytes
        replication = ReplicationWorker(
            store: gateway.store,
            connector: .gateway(http.webhookAddresses),
            configuration: following,
            logger: gateway.logger
        )
        var polling = Poller.Configuration(now: http.now)
        polling.places = workers.polls
        polling.maxConcurrentPerOrganization = max(1, workers.polls / 4)
        polling.limits = http.limits
        poller = http.probes.map { reader in
            Poller(store: gateway.store, upstream: reader, configuration: polling, logger: gateway.logger)
        }
        let sources = gateway.store.sources
        stats = Stats { try await sources.stats() }
    }

    package var services: [any Service] { [replication] + (poller.map { [$0] } ?? []) + [stats] }

    package func addRoutes(to routes: inout RouteTable, _ context: PublicContext) {
        let (store, http) = (gateway.store, gateway.configuration)
        let sources = SourceAuthenticator(tokens: store.serviceTokens, authenticator: context.authenticator)
        let ingest = IngestEndpoint(
            store: store,
            bodies: context.bodies,
            limits: http.limits,
            gate: context.budgets.decoding
        )
        routes.add(.post, "/v1/ingest", sources.sources(only: ingest.ingest))
        let receiver = ReceiverEndpoint(
            store: store,
            bodies: BodyReader(
                limit: min(http.limits.bodyBytes, ReceiverEndpoint.maximumBytes),
                budget: context.budgets.bodies
            ),
            limits: http.limits,
            gate: context.budgets.decoding,
            authenticator: context.authenticator,
            now: http.now,
            logger: gateway.logger
        )
        routes.add(.post, "/v1/sources/{organization}/{source}", receiver.receive)
    }

    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let organization = "/admin/organizations/{id}"
        let tokens = ServiceTokenEndpoints(store: gateway.store, bodies: context.bodies)
        let allTokens = organization + "/service-tokens"
        routes.read(at: allTokens, tokens.list)
        routes.write("makeServiceToken", .post, allTokens, tokens.make)
        routes.write("revokeServiceToken", .delete, allTokens + "/{token_id}", tokens.revoke)
        let sources = SourceEndpoints(
            administration: gateway.store.sourceAdministration,
            bodies: context.bodies,
            limits: gateway.configuration.limits,
            policy: gateway.configuration.webhookAddresses
        )
        let all = organization + "/sources"
        routes.read(at: all, sources.list)
        let source = all + "/{name}"
        routes.read(at: source, sources.read)
        routes.write("putSource", .put, source, sources.write)
        routes.write("deleteSource", .delete, source, sources.remove)
        routes.write("rotateSourceSecret", .post, source + "/secret", sources.rotate)
        routes.write("testSource", .post, source + "/test", sources.test)
        routes.write("runSource", .post, source + "/run", sources.run)
    }

    package static func describeMetrics(in registry: PrometheusRegistry) {
        registry.describe(
            SourceMetrics.runs,
            kind: .counter,
            help: "Runs of sources and messages to them, by kind and outcome: succeeded, failed, lost, unauthorized."
        )
        registry.describe(
            SourceMetrics.retries,
            kind: .counter,
            help: "Resubmitted batches of sources, by kind and reason: too_large, unavailable, parked."
        )
        registry.describe(
            SourceMetrics.events,
            kind: .counter,
            help: "Events of sources, by kind and outcome; ignored if no rule matches."
        )
    }

    package func addMetrics(to registry: PrometheusRegistry) {
        addSourceMetrics(to: registry)
        let (replication, poller) = (replication, poller)
        registry.addGauge("sluice_replications_running", "Databases of organizations that this replica replicates.") {
            Double(replication.loop.places.count)
        }
        registry.addGauge(
            "sluice_replication_lag_bytes",
            "Maximum lag of the replication slots that this replica checked recently."
        ) { Double(replication.reports.map(\.lagBytes).max() ?? 0) }
        registry.addGauge(
            "sluice_replication_retained_bytes",
            "Maximum log retained for a replication slot that this replica checked recently."
        ) { Double(replication.reports.map(\.retainedBytes).max() ?? 0) }
        registry.addGauge(
            "sluice_replication_slots",
            "Replication slots that this replica checked recently, by wal_status: reserved, extended, unreserved, "
                + "lost.",
            by: "wal_status"
        ) {
            let found = Dictionary(grouping: replication.reports, by: \.walStatus).mapValues { Double($0.count) }
            return Dictionary(uniqueKeysWithValues: SlotReport.walStatuses.map { ($0, found[$0] ?? 0) })
        }
        registry.addGauge("sluice_polls_running", "Sources that this replica polls.") {
            Double(poller?.loop.places.count ?? 0)
        }
        registry.addGauge(
            "sluice_polls_awaiting",
            "Sources that wait for a response. They do not count towards SLUICE_MAX_POLLS."
        ) {
            Double(poller?.loop.places.awaiting ?? 0)
        }
    }

    /// Adds gauges for the sources of all active organizations. Their values are from the last count in the database.
    private func addSourceMetrics(to registry: PrometheusRegistry) {
        let (stats, now) = (stats, gateway.configuration.now)
        let name = "sluice_sources"
        let help = "Sources of all active organizations, by kind and state: ok, failing, disabled."
        registry.describe(name, kind: .gauge, help: help)
        registry.onScrape { registry in
            guard let found = stats.findings else { return }
            for kind in SourceKind.allCases {
                let one = found[kind] ?? SourceStore.Stats()
                for (state, count) in [("ok", one.ok), ("failing", one.failing), ("disabled", one.disabled)] {
                    registry.setGauge(name, [("kind", kind.rawValue), ("state", state)], to: Double(count))
                }
            }
        }
        registry.addGauge(
            "sluice_source_last_success_seconds",
            "Maximum time since a source's last success, by kind; 0 without sources.",
            by: "kind"
        ) {
            guard let found = stats.findings else { return [:] }
            let workedOn = SourceKind.allCases.filter(\.isWorkedOn).map { kind in
                (kind.rawValue, found[kind]?.oldestSuccess?.age(at: now()) ?? 0)
            }
            return Dictionary(uniqueKeysWithValues: workedOn)
        }
    }

    package static func diagnoses(_ settings: Settings) async -> [Diagnosis] {
        await SourceExamination.diagnoses(settings)
    }

    package static func restored(_ administration: Administration) async throws(Problem) -> RestoreNote? {
        RestoreNote(try await administration.restoredSources())
    }

    package static func completeDemo(
        _ tenant: inout DemoTenant,
        in administration: Administration
    ) async throws(Problem) {
        guard tenant.upstream != nil else { return }
        tenant.serviceToken = try await administration.makeServiceToken(for: "demo", of: tenant.organization)?.token
    }
}
